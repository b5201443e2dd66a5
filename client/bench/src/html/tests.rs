//! The page as a whole.

use std::time::Duration;

use super::super::level::tests::{failed, level, spoken};
use super::super::record::Served;
use super::super::report::{Capacity, Report, Step};
use super::super::slo::Slo;
use super::charts::distribution;
use super::*;

fn report() -> Report {
    let requests = |slow: f64| {
        (1..=20)
            .map(|i| spoken(slow * f64::from(i), 0.0))
            .collect::<Vec<_>>()
    };
    let mut last = requests(0.05);
    last.push(failed());
    Report {
        mode: "speak".into(),
        spoken: true,
        served: Some(Served {
            model: "<script>alert(1)</script>".into(),
            voice: "a \"b\" & c".into(),
        }),
        levels: vec![level(1, 2.0, requests(0.01)), level(4, 2.0, last)],
        ..Report::default()
    }
}

fn page_of(report: &Report, slo: &Slo) -> String {
    page(&Tables { report, slo })
}

/// Every element is closed in order; void and self-closing ones need no end.
fn assert_well_formed(page: &str) {
    let mut open = Vec::new();
    for tag in page.split('<').skip(1) {
        let (tag, text) = tag.split_once('>').expect("every < begins a tag");
        assert!(
            !text.contains('>') || open.last() == Some(&"style"),
            "a bare > in {text:?}"
        );
        let name = tag
            .trim_start_matches('/')
            .split([' ', '/', '\n'])
            .next()
            .unwrap_or_default();
        if tag.starts_with('!') || tag.ends_with('/') || name == "meta" {
            continue;
        }
        if tag.starts_with('/') {
            assert_eq!(open.pop(), Some(name), "in {tag}");
        } else {
            open.push(name);
        }
        assert!(tag.matches('"').count() % 2 == 0, "{tag}");
    }
    assert!(open.is_empty(), "{open:?}");
}

#[test]
fn a_page_is_whole_safe_and_fetches_nothing() {
    let slo = Slo::parse("ttfa=300ms", |_| Ok(Duration::from_millis(300))).unwrap();
    let page = page_of(&report(), &slo);
    assert_well_formed(&page);
    for foreign in ["<script", "http://", "https://", "@import", "url(", " src="] {
        assert!(!page.contains(foreign), "{foreign}");
    }
    assert_eq!(page.matches("<svg ").count(), 5, "four charts and the raster");
    assert!(page.contains("promised 300 ms") && page.contains("prefers-color-scheme: dark"));
    assert!(page.contains("Failed 1 times: full"), "{page}");
}

#[test]
fn a_search_shows_what_was_found() {
    let mut report = report();
    report.max_streams = Some(Capacity {
        streams: 4,
        at_least: true,
        steps: vec![Step {
            streams: 4,
            complaints: Vec::new(),
        }],
    });
    let page = page_of(&report, &Slo::default());
    assert_well_formed(&page);
    assert!(page.contains("<b>≥ 4</b><span>streams carried"), "{page}");
}

#[test]
fn loads_without_any_good_request_still_make_a_page() {
    let mut report = report();
    report.levels = vec![level(1, 0.0, vec![failed()])];
    let page = page_of(&report, &Slo::default());
    assert_well_formed(&page);
    assert!(!page.contains("NaN") && !page.contains("inf"), "{page}");
    report.spoken = false;
    report.mode = "chat".into();
    assert_well_formed(&page_of(&report, &Slo::default()));
}

#[test]
fn the_steps_of_a_distribution_are_its_percentiles() {
    let report = report();
    let slo = Slo::default();
    let tables = Tables {
        report: &report,
        slo: &slo,
    };
    let chart = distribution(&tables, &TTFA).unwrap();
    // Twenty requests of 10, 20, ... 200 ms: each is five percent.
    let line = &chart.lines[0].points;
    assert_eq!(line.len(), 21);
    for (i, (ms, percent)) in line.iter().skip(1).enumerate() {
        let expected = (i + 1) as f64;
        assert!(
            (ms - expected * 10.0).abs() < 1e-6 && (percent - expected * 5.0).abs() < 1e-6,
            "{ms} {percent}"
        );
    }
}
