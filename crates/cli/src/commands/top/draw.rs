//! A frame as lines: for the screen, and as plain text for --batch. Lines are never longer than the width.

use super::{
    detail,
    keys::{HELP, Keys},
    model::{ListRow, Picture, RowKey, Tab},
};
use analyse::live::Scope;
use ratatui::{
    style::{Color, Modifier, Style as Paint},
    text::{Line, Span},
};
use render::{Style, printable, units};

/// What a frame is drawn with.
pub struct Canvas<'a> {
    pub style: &'a Style,
    pub width: usize,
    pub height: usize,
    /// The last lines that the command printed.
    pub output: &'a [String],
    /// In place of the keys on the last line.
    pub message: Option<&'a str>,
}

/// Lines above the list.
const HEAD: usize = 8;
/// Narrower than this, there are no means in the list; and then no rates.
const FOR_MEANS: usize = 60;
const FOR_RATES: usize = 44;

impl Canvas<'_> {
    /// Lines of the list that fit.
    pub fn page(&self) -> usize {
        self.height.saturating_sub(HEAD + 2).max(1)
    }

    /// The whole frame.
    pub fn frame(&self, picture: &Picture, keys: &Keys) -> Vec<Line<'static>> {
        let mut lines = self.head(picture, keys);
        let room = self.height.saturating_sub(lines.len() + 1);
        let mut body = match (&picture.detail, keys.shows_help) {
            (_, true) => self.help(),
            (Some(found), _) => detail::lines(self, found, room),
            _ => self.list(picture, keys, room),
        };
        body.truncate(room);
        body.resize(room, Line::default());
        lines.extend(body);
        lines.push(self.foot(picture, keys));
        lines.truncate(self.height);
        lines
    }

    fn head(&self, picture: &Picture, keys: &Keys) -> Vec<Line<'static>> {
        let seconds = picture.elapsed.as_secs();
        let state = match (picture.has_ended, keys.is_paused) {
            (true, _) => "  ended",
            (_, true) => "  paused",
            _ => "",
        };
        let time = format!("{:02}:{:02}{state}", seconds / 60, seconds % 60);
        let room = self.width.saturating_sub(time.len() + 14);
        let title = self.cut(&printable(&picture.title), room);
        let mut lines = vec![self.painted(
            &format!("cutrace top  {title:<room$} {time}"),
            Paint::new().add_modifier(Modifier::REVERSED),
        )];
        lines.push(self.gpu(picture));
        lines.push(self.steps(picture));
        let growth = match picture.growth {
            steady if steady.abs() < 1.0 => String::new(),
            more => {
                let sign = if more > 0.0 { '+' } else { '-' };
                format!("  {sign}{}/s", units::bytes(more.abs() as u64))
            }
        };
        lines.push(self.with_curve(
            &format!(
                "memory  {}  peak {}{growth}",
                units::bytes(picture.held_bytes),
                units::bytes(picture.peak_bytes)
            ),
            &picture.held_history,
        ));
        let [to, from, within] = picture.copies.map(|rate| match rate {
            none if none < 1.0 => "0 B/s".to_owned(),
            rate => units::bandwidth(rate as u64, 1_000_000_000),
        });
        lines.push(self.line(&format!(
            "copies  to GPU {to}  from GPU {from}  on GPU {within}"
        )));
        lines.push(self.counts(picture));
        lines.push(match &picture.last_error {
            Some(error) => self.painted(
                &format!("last error  {}", printable(error)),
                self.colour(Color::Red),
            ),
            None => Line::default(),
        });
        lines.push(self.tabs(picture, keys));
        lines
    }

    fn gpu(&self, picture: &Picture) -> Line<'static> {
        if !picture.has_gpu_times {
            return self
                .line("GPU     no GPU times (see cutrace doctor); kernels are counted at launch");
        }
        let mut spans = Vec::new();
        let mut left = self.width;
        let many = picture.gpus.len();
        for (name, share) in &picture.gpus {
            let bar = (self.width / many.max(1)).saturating_sub(18).clamp(4, 30);
            let text = format!(
                "{name:<7} {} {:>3.0} %  ",
                self.bar(*share, bar),
                share * 100.0
            );
            let columns = text.chars().count();
            if columns > left {
                spans.push(Span::raw(self.style.ellipsis().to_owned()));
                break;
            }
            left -= columns;
            spans.push(Span::styled(text, self.colour(Color::Green)));
        }
        self.cut_line(Line::from(spans))
    }

    fn steps(&self, picture: &Picture) -> Line<'static> {
        let Some(steps) = &picture.steps else {
            return self.line("step    no loop found yet");
        };
        let lengths: Vec<u64> = (steps.recent.iter())
            .map(|one| one.end_ns.saturating_sub(one.start_ns))
            .collect();
        let time = |ns| units::time(ns, self.style);
        let last = lengths.last().copied().unwrap_or(0);
        let text = format!(
            "step    {}  median {}  p99 {}  {} steps",
            time(last),
            time(median(&lengths)),
            time(steps.durations.quantile_ns(0.99)),
            units::count(steps.count),
        );
        self.with_curve(&text, &lengths)
    }

    fn counts(&self, picture: &Picture) -> Line<'static> {
        let mut spans = vec![Span::raw(format!(
            "calls   {}/s  launches {}/s  ",
            rate(picture.calls_per_second),
            rate(picture.launches_per_second)
        ))];
        let alarm = |count: u64| match count {
            0 => Paint::new(),
            _ => self.colour(Color::Red),
        };
        let errors = format!("errors {}  ", units::count(picture.errors));
        spans.push(Span::styled(errors, alarm(picture.errors)));
        let dropped = format!("dropped {}  ", units::count(picture.lost));
        spans.push(Span::styled(dropped, alarm(picture.lost)));
        spans.push(Span::raw(format!(
            "cutrace {:.1} % of a core",
            picture.own_cost * 100.0
        )));
        self.cut_line(Line::from(spans))
    }

    fn tabs(&self, picture: &Picture, keys: &Keys) -> Line<'static> {
        let mut spans = Vec::new();
        for tab in Tab::ALL {
            let count = match tab {
                Tab::Errors if picture.errors > 0 => format!(" {}", picture.errors),
                _ => String::new(),
            };
            if tab == keys.choice.tab {
                let bold = Paint::new().add_modifier(Modifier::BOLD | Modifier::UNDERLINED);
                spans.push(Span::styled(format!("[{}{count}]", tab.title()), bold));
                spans.push(Span::raw(" "));
            } else {
                spans.push(Span::raw(format!("{}{count} ", tab.title())));
            }
        }
        self.cut_line(Line::from(spans))
    }

    fn list(&self, picture: &Picture, keys: &Keys, room: usize) -> Vec<Line<'static>> {
        if keys.choice.tab == Tab::Output {
            let lines: Vec<Line> = (self.output.iter()).map(|line| self.line(line)).collect();
            let first = lines.len().saturating_sub(room);
            return match lines.is_empty() {
                true => vec![self.line("The command has printed nothing yet.")],
                false => lines[first..].to_vec(),
            };
        }
        let mut lines = vec![self.painted(&self.titles(keys), self.colour(Color::Cyan))];
        let page = room.saturating_sub(1).max(1);
        // The chosen line is always among those shown.
        let place = keys.place.min(picture.rows.len().saturating_sub(1));
        let first = place.saturating_sub(page - 1);
        for (number, row) in picture.rows.iter().enumerate().skip(first).take(page) {
            let paint = match number == place {
                true => Paint::new().add_modifier(Modifier::REVERSED),
                false if row.failed > 0 => self.colour(Color::Red),
                false => Paint::new(),
            };
            lines.push(self.painted(&self.row(row, keys.choice.tab), paint));
        }
        if picture.rows.is_empty() {
            let words = match (keys.choice.tab, picture.hidden) {
                (_, 1..) => "The filter hides everything; Esc clears it.",
                (Tab::Errors, _) => "No errors.",
                _ => "Nothing in the last seconds; t shows totals since the start.",
            };
            lines.push(self.line(words));
        }
        lines
    }

    fn titles(&self, keys: &Keys) -> String {
        let name = match keys.choice.tab {
            Tab::Kernels => "kernel",
            Tab::Categories => "category",
            Tab::Processes => "process",
            _ => "function",
        };
        let sorted = format!("{name} (by {})", keys.choice.sort.title());
        match keys.choice.tab {
            Tab::Errors => format!("{:>9}  {name}", "times"),
            Tab::Processes => format!("{:>9}  {name}", "calls"),
            _ => self.columns("time", self.count_title(keys), "mean", &sorted),
        }
    }

    fn count_title(&self, keys: &Keys) -> &'static str {
        match (keys.choice.since_start, keys.choice.tab) {
            (true, Tab::Kernels) => "runs",
            (true, _) => "calls",
            (false, Tab::Kernels) => "runs/s",
            (false, _) => "calls/s",
        }
    }

    fn row(&self, row: &ListRow, tab: Tab) -> String {
        let name = printable(&row.name);
        match tab {
            Tab::Errors | Tab::Processes => {
                // Calls are counted by process.
                let count = match row.what {
                    RowKey::Scope(Scope::Thread(..)) => String::new(),
                    _ => units::count(row.count),
                };
                format!("{count:>9}  {name}  {}", printable(&row.note))
            }
            _ => {
                let share = match row.share {
                    Some(share) => format!("{:.1} %", share * 100.0),
                    None => "-".to_owned(),
                };
                let often = row.per_second.map_or_else(|| units::count(row.count), rate);
                let mean =
                    (row.mean_ns).map_or_else(|| "-".to_owned(), |ns| units::time(ns, self.style));
                let failed = match row.failed {
                    0 => String::new(),
                    failed => format!("  {failed} failed"),
                };
                self.columns(&share, &often, &mean, &format!("{name}{failed}"))
            }
        }
    }

    fn columns(&self, share: &str, often: &str, mean: &str, name: &str) -> String {
        match self.width {
            FOR_MEANS.. => format!("{share:>7} {often:>10} {mean:>9}  {name}"),
            FOR_RATES.. => format!("{share:>7} {often:>10}  {name}"),
            _ => format!("{share:>7}  {name}"),
        }
    }

    fn help(&self) -> Vec<Line<'static>> {
        HELP.iter()
            .map(|(keys, words)| match self.width {
                FOR_MEANS.. => self.line(&format!("  {keys:<21} {words}")),
                _ => self.line(&format!("{keys}: {words}")),
            })
            .collect()
    }

    fn foot(&self, picture: &Picture, keys: &Keys) -> Line<'static> {
        if keys.is_typing {
            return self.line(&format!("filter: {}_", keys.choice.filter));
        }
        if let Some(message) = self.message {
            return self.painted(
                &printable(message),
                Paint::new().add_modifier(Modifier::BOLD),
            );
        }
        let filter = match (&*keys.choice.filter, picture.hidden) {
            ("", _) => String::new(),
            (text, hidden) => format!("filter '{text}' hides {hidden}  "),
        };
        let faint = Paint::new().add_modifier(Modifier::DIM);
        self.painted(
            &format!(
                "{filter}q quit  Tab list  Enter details  s sort  / filter  p pause  w save  ? help"
            ),
            faint,
        )
    }

    /// Text, and a curve in what is left of the line.
    fn with_curve(&self, text: &str, values: &[u64]) -> Line<'static> {
        let left = self.width.saturating_sub(text.chars().count() + 2);
        if left < 8 {
            return self.line(text);
        }
        let first = values.len().saturating_sub(left);
        let curve = sparkline(&values[first..], self.style.unicode);
        Line::from(vec![
            Span::raw(format!("{text}  ")),
            Span::styled(curve, self.colour(Color::Yellow)),
        ])
    }

    pub fn bar(&self, share: f64, width: usize) -> String {
        let full = ((share.clamp(0.0, 1.0) * width as f64).round() as usize).min(width);
        let (on, off) = if self.style.unicode {
            ("█", "░")
        } else {
            ("#", ".")
        };
        format!("{}{}", on.repeat(full), off.repeat(width - full))
    }

    pub fn line(&self, text: &str) -> Line<'static> {
        Line::raw(self.cut(text, self.width))
    }

    fn painted(&self, text: &str, paint: Paint) -> Line<'static> {
        Line::styled(self.cut(text, self.width), paint)
    }

    fn colour(&self, colour: Color) -> Paint {
        match self.style.color {
            true => Paint::new().fg(colour),
            false => Paint::new(),
        }
    }

    fn cut(&self, text: &str, width: usize) -> String {
        if text.chars().count() <= width {
            return text.to_owned();
        }
        let dots = self.style.ellipsis();
        let room = width.saturating_sub(dots.chars().count());
        let cut: String = text.chars().take(room).collect();
        format!("{cut}{dots}").chars().take(width).collect()
    }

    fn cut_line(&self, line: Line<'static>) -> Line<'static> {
        let mut left = self.width;
        let mut spans = Vec::new();
        for span in line.spans {
            let text = self.cut(&span.content, left);
            left -= text.chars().count();
            spans.push(Span::styled(text, span.style));
        }
        Line::from(spans)
    }
}

/// A curve of one line, from the smallest to the largest value.
fn sparkline(values: &[u64], unicode: bool) -> String {
    let signs: &[char] = match unicode {
        true => &['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'],
        false => &['_', '.', '-', '=', '+', '*', '%', '#'],
    };
    let most = values.iter().max().copied().unwrap_or(0);
    let least = values.iter().min().copied().unwrap_or(0);
    // Small differences are not blown up: the curve begins at half of the least value.
    let floor = least / 2;
    let height = (most - floor).max(1);
    let sign = |value: u64| {
        let part = (value - floor) as f64 / height as f64;
        signs[((part * (signs.len() - 1) as f64).round() as usize).min(signs.len() - 1)]
    };
    values.iter().map(|&value| sign(value)).collect()
}

fn median(values: &[u64]) -> u64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    sorted.get(sorted.len() / 2).copied().unwrap_or(0)
}

/// `12,345`, `8.3`
fn rate(per_second: f64) -> String {
    match per_second {
        none if none <= 0.0 => "0".to_owned(),
        few if few < 9.95 => format!("{few:.1}"),
        many => units::count(many.round() as u64),
    }
}

/// A line as text, without what is behind its end.
pub fn plain(line: &Line<'_>) -> String {
    let text: String = line.spans.iter().map(|span| &*span.content).collect();
    text.trim_end().to_owned()
}

#[cfg(test)]
mod tests;
