//! Lines over two axes.

use std::fmt::Write as _;

use super::markup::escaped;
use super::scale::Axis;

/// Width, height and the margins around the plot: left, top, right, bottom.
const SIZE: (f64, f64) = (560.0, 300.0);
const MARGIN: (f64, f64, f64, f64) = (54.0, 12.0, 16.0, 42.0);

/// Classes of colour of lines that mean different things.
pub(super) const MARKS: [&str; 4] = ["a", "b", "c", "d"];

/// One line.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Line {
    pub(super) name: String,
    /// Class of its colour.
    pub(super) class: String,
    pub(super) points: Vec<(f64, f64)>,
    /// Goes up in steps, without dots.
    pub(super) steps: bool,
}

/// A chart with its title and key.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Chart {
    pub(super) title: String,
    pub(super) x: Axis,
    pub(super) y: Axis,
    pub(super) lines: Vec<Line>,
    /// Horizontal lines for promised bounds, with their labels.
    pub(super) bounds: Vec<(f64, String)>,
}

impl Chart {
    pub(super) fn html(&self) -> String {
        let key = |line: &Line| {
            let class = &line.class;
            let name = escaped(&line.name);
            format!("<li><i class=\"{class}\"></i>{name}</li>")
        };
        let title = escaped(&self.title);
        format!(
            "<figure class=\"card\"><h2>{title}</h2><ul class=\"key\">{}</ul>\n{}</figure>\n",
            self.lines.iter().map(key).collect::<String>(),
            self.svg()
        )
    }

    fn svg(&self) -> String {
        let (width, height) = SIZE;
        let title = escaped(&self.title);
        let mut svg = format!("<svg viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"{title}\">\n");
        self.axes(&mut svg);
        for line in &self.lines {
            self.line(&mut svg, line);
        }
        for (value, text) in &self.bounds {
            let left = MARGIN.0;
            let right = width - MARGIN.2;
            let y = self.y_at(*value);
            let _ = writeln!(
                svg,
                "<line class=\"bound\" x1=\"{left}\" x2=\"{right}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\
                 <text class=\"bound\" x=\"{right}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                if y < 30.0 { y + 14.0 } else { y - 5.0 },
                escaped(text)
            );
        }
        svg.push_str("</svg>\n");
        svg
    }

    fn axes(&self, svg: &mut String) {
        let (width, height) = SIZE;
        let left = MARGIN.0;
        let right = width - MARGIN.2;
        let bottom = height - MARGIN.3;
        for (value, text) in &self.y.ticks {
            let y = self.y_at(*value);
            let _ = writeln!(
                svg,
                "<line class=\"grid\" x1=\"{left}\" x2=\"{right}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\
                 <text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                left - 8.0,
                y + 4.0,
                escaped(text)
            );
        }
        let _ = writeln!(
            svg,
            "<line class=\"axis\" x1=\"{left}\" x2=\"{right}\" y1=\"{bottom}\" y2=\"{bottom}\"/>"
        );
        for (value, text) in &self.x.ticks {
            let x = self.x_at(*value);
            let _ = writeln!(
                svg,
                "<line class=\"axis\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{bottom}\" y2=\"{}\"/>\
                 <text x=\"{x:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
                bottom + 4.0,
                bottom + 17.0,
                escaped(text)
            );
        }
        let middle = (MARGIN.1 + bottom) / 2.0;
        let _ = writeln!(
            svg,
            "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>\
             <text transform=\"translate(14 {middle}) rotate(-90)\" text-anchor=\"middle\">{}</text>",
            (left + right) / 2.0,
            height - 6.0,
            escaped(&self.x.title),
            escaped(&self.y.title)
        );
    }

    fn line(&self, svg: &mut String, line: &Line) {
        let mut path = String::new();
        for (i, &(x, y)) in line.points.iter().enumerate() {
            let x = self.x_at(x);
            let y = self.y_at(y);
            let _ = match (i, line.steps) {
                (0, _) => write!(path, "M{x:.1} {y:.1}"),
                (_, true) => write!(path, "H{x:.1}V{y:.1}"),
                (_, false) => write!(path, "L{x:.1} {y:.1}"),
            };
        }
        let _ = writeln!(
            svg,
            "<g class=\"{}\"><path class=\"line\" d=\"{path}\"/>",
            line.class
        );
        for &(x, y) in line.points.iter().filter(|_| !line.steps) {
            let _ = writeln!(
                svg,
                "<circle class=\"dot\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"4\"><title>{} at {x}: {y:.1}</title></circle>",
                self.x_at(x),
                self.y_at(y),
                escaped(&line.name)
            );
        }
        svg.push_str("</g>\n");
    }

    fn x_at(&self, value: f64) -> f64 {
        MARGIN.0 + self.x.scale.position(value) * (SIZE.0 - MARGIN.0 - MARGIN.2)
    }

    fn y_at(&self, value: f64) -> f64 {
        SIZE.1 - MARGIN.3 - self.y.scale.position(value) * (SIZE.1 - MARGIN.1 - MARGIN.3)
    }
}

#[cfg(test)]
mod tests {
    use super::super::scale::Scale;
    use super::*;

    fn chart(steps: bool) -> Chart {
        let line = Line {
            name: "a < b".into(),
            class: "a".into(),
            points: vec![(0.0, 0.0), (5.0, 50.0), (10.0, 100.0)],
            steps,
        };
        Chart {
            title: "t".into(),
            x: Axis::new(Scale::linear(0.0, 10.0), "x".into()),
            y: Axis::new(Scale::linear(0.0, 100.0), "y".into()),
            lines: vec![line],
            bounds: vec![(50.0, "half".into())],
        }
    }

    #[test]
    fn points_are_where_the_axes_say() {
        // The plot reaches from 54 to 544 and from 258 up to 12.
        let html = chart(false).html();
        assert!(
            html.contains("d=\"M54.0 258.0L299.0 135.0L544.0 12.0\""),
            "{html}"
        );
        assert_eq!(html.matches("<circle").count(), 3);
        assert!(
            html.contains("y1=\"135.0\" y2=\"135.0\"/><text class=\"bound\""),
            "{html}"
        );
        assert!(html.contains("a &lt; b") && !html.contains("a < b"), "{html}");
    }

    #[test]
    fn steps_go_right_and_then_up() {
        let html = chart(true).html();
        assert!(
            html.contains("d=\"M54.0 258.0H299.0V135.0H544.0V12.0\"") && !html.contains("<circle"),
            "{html}"
        );
    }
}
