//! Final decision, for speech that was tracked too slowly: all ways to the last place are reconsidered, at any
//! distance.

use super::{Follower, LINGER, WAYS};

/// Limit on moments times places; larger problems are divided evenly.
const MOST: usize = 1 << 23;

/// A part of the speech: its places and its moments.
struct Rest {
    place: usize,
    /// Moment among those kept.
    moment: usize,
}

impl Follower {
    /// Moments at which the marks from the `from`th on were passed, if the speech has come to its last place with its
    /// last moment.
    pub(super) fn ended(&self, from: usize) -> Vec<usize> {
        let open = self.marks.get(from..).unwrap_or_default();
        let rest = self.rest(from);
        let path = self.path(&rest).unwrap_or_else(|| self.even(&rest));
        let passed = open.iter().map(|&mark| {
            let moment = path.partition_point(|&place| place < mark);
            self.before + rest.moment + moment
        });
        passed.collect()
    }

    /// Remainder behind the mark before the `from`th, as far as it was found.
    fn rest(&self, from: usize) -> Rest {
        let before = from.checked_sub(1).map(|last| self.moments(last, false));
        let found = before.and_then(|found| found.first().copied().flatten());
        match (from.checked_sub(1), found) {
            (Some(last), Some(moment)) if moment >= self.before => Rest {
                place: self.marks[last],
                moment: (moment - self.before).min(self.rows.len()),
            },
            _ => Rest {
                place: self.rows.front().map_or(0, |row| row.first as usize),
                moment: 0,
            },
        }
    }

    /// The place at each moment of the most likely way; none if there are too few moments for it, or too many for this.
    fn path(&self, rest: &Rest) -> Option<Vec<usize>> {
        let sounds = self.grid.get(rest.place..).filter(|sounds| !sounds.is_empty())?;
        let count = self.heard.len().checked_sub(rest.moment + 1)? + 1;
        let fastest = WAYS.len() - 1;
        if (count - 1) * fastest < sounds.len() - 1 || count * sounds.len() > MOST {
            return None;
        }
        let mut ways = Vec::with_capacity(count * sounds.len());
        let mut scores: Vec<f32> = Vec::new();
        for moment in self.heard.range(rest.moment..) {
            let mut likely = (u32::MAX, 0.0);
            let reached = sounds.iter().enumerate().map(|(place, &sound)| {
                if likely.0 != sound {
                    likely = (sound, moment.likelihood(&self.sounds[sound as usize].timbre));
                }
                let (way, score) = match scores.is_empty() {
                    true if place == 0 => (0, 0.0),
                    true => (0, f32::NEG_INFINITY),
                    false => best(&scores, place, self.sounds[sound as usize].lingers),
                };
                ways.push(way);
                score + likely.1
            });
            scores = reached.collect();
        }
        let mut place = sounds.len() - 1;
        let mut path = vec![rest.place + place];
        for row in ways.chunks_exact(sounds.len()).skip(1).rev() {
            place = place.saturating_sub(usize::from(row[place]));
            path.push(rest.place + place);
        }
        path.reverse();
        Some(path)
    }

    /// The place at each moment if every place takes as long.
    fn even(&self, rest: &Rest) -> Vec<usize> {
        let places = self.grid.len().saturating_sub(rest.place);
        let count = self.heard.len().saturating_sub(rest.moment);
        (0..count)
            .map(|moment| rest.place + places * (moment + 1) / count)
            .collect()
    }
}

/// Best way to a place, with its score.
fn best(scores: &[f32], place: usize, lingers: bool) -> (u8, f32) {
    let mut best = (0, f32::NEG_INFINITY);
    for (way, worth) in WAYS.into_iter().enumerate() {
        let Some(from) = place.checked_sub(way) else { break };
        let worth = if way == 0 && lingers { LINGER } else { worth };
        let score = scores[from] + worth;
        if score > best.1 {
            best = (way as u8, score);
        }
    }
    best
}
