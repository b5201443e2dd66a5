//! Drawing the screen.

use omni_client::ReplicaState;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Borders, Cell, Paragraph, Row, Table as Widget, TableState};

use super::rows;
use super::state::{State, Table};

const KEYS: &str =
    "q quit   Tab replicas/sessions   \u{2191}\u{2193} choose   c cordon/uncordon   k end session   d drain";
/// Heads of a table, and its border.
const AROUND: u16 = 3;

pub(super) fn draw(frame: &mut Frame<'_>, state: &mut State) {
    let replicas = rows::replicas(&state.stats.stages);
    let sessions = rows::sessions(&state.stats.session_list);
    let head = rows::head(&state.info, &state.stats);
    // The stages are few, and are shown whole where that leaves the sessions some room.
    let height = u16::try_from(replicas.len())
        .unwrap_or(u16::MAX)
        .saturating_add(AROUND);
    let lines = u16::try_from(head.len()).unwrap_or(u16::MAX);
    let most = frame.area().height.saturating_sub(lines + 2) / 2;
    let parts = [
        Constraint::Length(lines),
        Constraint::Length(height.min(most.max(AROUND + 1))),
        Constraint::Min(AROUND),
        Constraint::Length(2),
    ];
    let [top, stages, calls, foot] = Layout::vertical(parts).areas(frame.area());
    frame.render_widget(Paragraph::new(title(head, state)), top);
    let marks: Vec<_> = rows::present(&state.stats.stages)
        .map(|(_, replica)| color(replica.state))
        .collect();
    let chosen = (state.table == Table::Replicas)
        .then(|| state.replica_row())
        .flatten();
    let heading = format!(" Replicas ({}) ", replicas.len());
    table(frame, stages, &heading, &rows::REPLICAS, replicas, &marks, chosen);
    let marks = state.stats.session_list.iter().map(|session| {
        let starves = session.lead.is_some_and(|lead| lead < 0.0);
        starves.then_some(Color::Red)
    });
    let marks: Vec<_> = marks.collect();
    let chosen = (state.table == Table::Sessions)
        .then(|| state.session_row())
        .flatten();
    let heading = format!(" Sessions ({}) ", state.stats.sessions);
    table(frame, calls, &heading, &rows::SESSIONS, sessions, &marks, chosen);
    frame.render_widget(Paragraph::new(bottom(state)), foot);
}

fn title(head: Vec<String>, state: &State) -> Vec<Line<'static>> {
    let style = match (state.lost, state.stats.draining) {
        (true, _) => Style::new().fg(Color::DarkGray),
        (false, true) => Style::new().fg(Color::Yellow),
        (false, false) => Style::new(),
    };
    let mut lines: Vec<_> = head.into_iter().map(|line| Line::styled(line, style)).collect();
    if let Some(first) = lines.first_mut() {
        *first = std::mem::take(first).style(style.add_modifier(Modifier::BOLD));
    }
    lines
}

/// A question, or what came of the last key; and the keys.
fn bottom(state: &State) -> Vec<Line<'static>> {
    let first = match &state.asks {
        Some((_, question)) => Line::from(vec![
            Span::styled(
                question.clone(),
                Style::new().fg(Color::Yellow).add_modifier(Modifier::BOLD),
            ),
            Span::raw("  y: yes, any other key: no"),
        ]),
        None if state.lost => Line::styled(state.message.clone(), Style::new().fg(Color::Red)),
        None => Line::from(state.message.clone()),
    };
    vec![first, Line::styled(KEYS, Style::new().fg(Color::DarkGray))]
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

/// A table whose columns are as wide as what is in them; the last has what is left. Those that do not fit are left out.
fn table(
    frame: &mut Frame<'_>,
    area: Rect,
    heading: &str,
    head: &[&str],
    rows: Vec<Vec<String>>,
    marks: &[Option<Color>],
    chosen: Option<usize>,
) {
    let widest = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.chain([head[column].chars().count()]).max().unwrap_or(0)
    };
    let mut room = usize::from(area.width.saturating_sub(2));
    let mut widths = Vec::with_capacity(head.len());
    for (column, title) in head.iter().enumerate() {
        let last = column + 1 == head.len();
        let width = match last {
            true => title.chars().count(),
            false => widest(column),
        };
        // A column that is cut says nothing, and so does every one behind it.
        if width > room && column > 0 {
            break;
        }
        widths.push(match last {
            true => Constraint::Fill(1),
            false => Constraint::Length(u16::try_from(width).unwrap_or(u16::MAX)),
        });
        room = room.saturating_sub(width + usize::from(SPACING));
    }
    let rows = rows.into_iter().zip(marks).map(|(cells, mark)| {
        let row = Row::new(cells.into_iter().map(Cell::from));
        match mark {
            Some(color) => row.style(Style::new().fg(*color)),
            None => row,
        }
    });
    let bold = Style::new().add_modifier(Modifier::BOLD);
    let widget = Widget::new(rows, widths)
        .header(Row::new(head.iter().copied()).style(bold))
        .column_spacing(SPACING)
        .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED))
        .block(Block::new().borders(Borders::ALL).title(heading.to_owned()));
    let mut state = TableState::new().with_selected(chosen);
    frame.render_stateful_widget(widget, area, &mut state);
}

#[cfg(test)]
mod tests;
