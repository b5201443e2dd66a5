//! Drawing the screen.

use omni_client::ReplicaState;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span, Text};
use ratatui::widgets::{Block, Borders, Cell, Clear, Paragraph, Row, Table as Widget, TableState, Wrap};

use super::state::{State, Table};
use crate::operator::rows;

const KEYS: &str = "? help  q quit  Tab table  \u{2191}\u{2193} choose  c cordon  k end session  d drain";
/// Text of `?`.
const HELP: [&str; 13] = [
    "q, Ctrl-C    quit",
    "Tab          go to the other table",
    "Up, Down, j  choose a row",
    "c            cordon a replica: it finishes what it has and gets nothing new; again: uncordon",
    "k            end a session",
    "d            drain: shut the server down as SIGTERM does",
    "Esc          take a question or a message away",
    "",
    "FLIGHT       utterances and answers that are bound to a replica",
    "RUN, WAIT    sequences in its batch, and before it",
    "KV           share of its KV cache in use",
    "BUSY         share of the time since the last look that it spent in STEPS of its model",
    "LEAD         audio that the listener of a session has not heard yet; red where it is below zero",
];
/// Lines of a screen that has room for more than the least.
const HIGH: u16 = 20;
/// Heads of a table, and its border.
const AROUND: u16 = 3;

pub(super) fn draw(frame: &mut Frame<'_>, state: &mut State) {
    let replicas = rows::replicas(&state.stats, state.before.as_ref());
    let sessions = rows::sessions(&state.stats.session_list);
    let title = title(state, frame.area());
    // The stages are few, and are shown whole where that leaves the sessions some room.
    let height = u16::try_from(replicas.len())
        .unwrap_or(u16::MAX)
        .saturating_add(AROUND);
    let lines = u16::try_from(title.len()).unwrap_or(u16::MAX);
    let most = frame.area().height.saturating_sub(lines + 2) / 2;
    let parts = [
        Constraint::Length(lines),
        Constraint::Length(height.min(most.max(AROUND + 1))),
        Constraint::Min(AROUND),
        Constraint::Length(foot_height(state, frame.area().width)),
    ];
    let [top, stages, calls, foot] = Layout::vertical(parts).areas(frame.area());
    frame.render_widget(Paragraph::new(title), top);
    let marks = rows::present(&state.stats.stages).map(|(_, replica)| color(replica.state));
    let active = state.table == Table::Replicas;
    let content = Content {
        heading: format!(" Replicas ({}) ", replicas.len()),
        head: &rows::REPLICAS,
        rows: replicas,
        marks: marks.collect(),
        chosen: state.replica_row().filter(|_| active),
        active,
    };
    table(frame, stages, content);
    let marks = state.stats.session_list.iter().map(|session| {
        let starves = session.lead.is_some_and(|lead| lead < 0.0);
        starves.then_some(Color::Red)
    });
    let active = state.table == Table::Sessions;
    let content = Content {
        heading: format!(" Sessions ({}) ", state.stats.sessions),
        head: &rows::SESSIONS,
        rows: sessions,
        marks: marks.collect(),
        chosen: state.session_row().filter(|_| active),
        active,
    };
    table(frame, calls, content);
    // A question is wrapped where that takes it; the keys stay on the last line.
    let [told, keys] = Layout::vertical([Constraint::Min(0), Constraint::Length(1)]).areas(foot);
    frame.render_widget(Paragraph::new(told_line(state)).wrap(Wrap { trim: true }), told);
    frame.render_widget(
        Paragraph::new(Line::styled(KEYS, Style::new().fg(Color::DarkGray))),
        keys,
    );
    if state.help {
        help(frame);
    }
}

/// The keys and the columns, over everything else.
fn help(frame: &mut Frame<'_>) {
    let lines: Vec<_> = HELP.into_iter().map(Line::from).collect();
    let block = Block::new()
        .borders(Borders::ALL)
        .border_style(Style::new().fg(Color::Cyan))
        .title(" Help: any key goes back ");
    let area = frame.area();
    frame.render_widget(Clear, area);
    frame.render_widget(
        Paragraph::new(lines).wrap(Wrap { trim: false }).block(block),
        area,
    );
}

/// A line in as many as it takes, cut between words.
fn wrapped(line: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in line.split_inclusive(' ') {
        match lines.last_mut() {
            Some(last) if (last.chars().count() + word.trim_end().chars().count()) <= width => {
                last.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// The head. Its lines are wrapped where that leaves the tables some room, else cut.
fn title(state: &State, area: Rect) -> Vec<Line<'static>> {
    let style = match (state.lost, state.stats.draining) {
        (true, _) => Style::new().fg(Color::DarkGray),
        (false, true) => Style::new().fg(Color::Yellow),
        (false, false) => Style::new(),
    };
    let width = match area.height {
        0..HIGH => usize::MAX,
        _ => usize::from(area.width),
    };
    let lines = rows::head(&state.info, &state.stats).into_iter().enumerate();
    let lines = lines.flat_map(|(nth, line)| {
        let style = match nth {
            0 => style.add_modifier(Modifier::BOLD),
            _ => style,
        };
        wrapped(&line, width)
            .into_iter()
            .map(move |line| Line::styled(line, style))
    });
    lines.collect()
}

/// Question, or result of the last key.
fn told_line(state: &State) -> Line<'static> {
    match &state.asks {
        Some((_, question)) => Line::from(vec![
            Span::styled(
                question.clone(),
                Style::new().fg(Color::Yellow).add_modifier(Modifier::BOLD),
            ),
            Span::raw("  y: yes, any other key: no"),
        ]),
        None if state.lost => Line::styled(state.message.clone(), Style::new().fg(Color::Red)),
        None => Line::from(state.message.clone()),
    }
}

/// Lines at the foot of the screen: a question may take several.
fn foot_height(state: &State, width: u16) -> u16 {
    let told = told_line(state).width();
    let width = usize::from(width.max(1));
    // Lines are cut between words, which may take one more.
    let lines = (told.div_ceil(width) + usize::from(told > width)).clamp(1, 5);
    u16::try_from(lines).unwrap_or(1) + 1
}

fn color(state: ReplicaState) -> Option<Color> {
    match state {
        ReplicaState::Ready => None,
        ReplicaState::Loading | ReplicaState::Cordoned | ReplicaState::Leaving => Some(Color::Yellow),
        ReplicaState::Restarting | ReplicaState::Failed => Some(Color::Red),
        ReplicaState::Removed | ReplicaState::Unknown => Some(Color::DarkGray),
    }
}

/// Blanks between the columns of a table.
const SPACING: u16 = 2;

/// Content and style of a table.
struct Content<'a> {
    heading: String,
    head: &'a [&'static str],
    rows: Vec<Vec<String>>,
    marks: Vec<Option<Color>>,
    /// The row under the cursor.
    chosen: Option<usize>,
    /// The arrows move here.
    active: bool,
}

/// A table whose columns are as wide as their content; the last has the rest. Columns that are empty or do not fit
/// are left out.
fn table(frame: &mut Frame<'_>, area: Rect, content: Content<'_>) {
    let Content {
        rows, marks, head, ..
    } = content;
    let filled = |column: usize| rows.is_empty() || rows.iter().any(|row| !row[column].is_empty());
    let columns: Vec<_> = (0..head.len()).filter(|column| filled(*column)).collect();
    let widest = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.chain([head[column].chars().count()]).max().unwrap_or(0)
    };
    let mut room = usize::from(area.width.saturating_sub(2));
    let mut widths = Vec::with_capacity(columns.len());
    for (nth, column) in columns.iter().enumerate() {
        let last = nth + 1 == columns.len();
        let width = if last {
            head[*column].chars().count()
        } else {
            widest(*column)
        };
        // A cut column is useless, and so is every one behind it.
        if width > room && nth > 0 {
            break;
        }
        widths.push(if last {
            Constraint::Fill(1)
        } else {
            Constraint::Length(u16::try_from(width).unwrap_or(u16::MAX))
        });
        room = room.saturating_sub(width + usize::from(SPACING));
    }
    let cell = |column: usize, text: String| {
        // The last column is as wide as the screen: figures at its far end would stand alone.
        let figures = rows::FIGURES.contains(&head[column]) && columns.last() != Some(&column);
        Cell::from(if figures {
            Text::from(text).right_aligned()
        } else {
            Text::from(text)
        })
    };
    let shown = rows.iter().zip(marks).map(|(cells, mark)| {
        let row = Row::new(columns.iter().map(|column| cell(*column, cells[*column].clone())));
        match mark {
            Some(color) => row.style(Style::new().fg(color)),
            None => row,
        }
    });
    let bold = Style::new().add_modifier(Modifier::BOLD);
    let titles = columns
        .iter()
        .map(|column| cell(*column, head[*column].to_owned()));
    let border = if content.active {
        Style::new().fg(Color::Cyan)
    } else {
        Style::new()
    };
    let widget = Widget::new(shown, widths)
        .header(Row::new(titles).style(bold))
        .column_spacing(SPACING)
        .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED))
        .block(
            Block::new()
                .borders(Borders::ALL)
                .border_style(border)
                .title(content.heading),
        );
    let mut state = TableState::new().with_selected(content.chosen);
    frame.render_stateful_widget(widget, area, &mut state);
}

#[cfg(test)]
mod tests;
