//! What keys do.

use super::model::{Choice, RowKey, Tab};
use analyse::{SymbolId, live::Scope};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

/// The screen's state beside the numbers.
#[derive(Default)]
pub struct Keys {
    pub choice: Choice,
    /// The line of the list.
    pub place: usize,
    pub is_paused: bool,
    /// A filter is being typed.
    pub is_typing: bool,
    pub shows_help: bool,
    /// The function or kernel that is looked into.
    pub detail: Option<SymbolId>,
}

/// What is to be done beside drawing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    Nothing,
    Quit,
    /// Ctrl-C: for the command.
    Interrupt,
    Save,
    Redraw,
}

/// The keys, for the help.
pub const HELP: [(&str, &str); 14] = [
    ("Tab, Shift-Tab", "next, previous list"),
    (
        "1 to 6",
        "functions, categories, kernels, errors, processes, output",
    ),
    ("Up, Down, PgUp, PgDn", "move in the list"),
    (
        "Enter",
        "look into a function or kernel; choose a process or thread",
    ),
    ("Esc", "back; then all processes; then no filter"),
    ("s", "sort by time, calls, mean or name"),
    ("/", "filter by a part of the name, or by a glob: cuMem*"),
    ("t", "totals since the start, or the last 5 seconds"),
    ("p, Space", "pause the screen; the program runs on"),
    ("w", "save the last seconds as a trace"),
    ("?", "this help"),
    ("q", "leave the screen; a command runs on to its end"),
    ("Ctrl-C", "interrupt the command; detach with -p and -a"),
    ("Ctrl-L", "draw everything again"),
];

impl Keys {
    /// `rows`: the lines of the list that is shown; `page`: how many fit.
    pub fn press(&mut self, key: KeyEvent, rows: &[RowKey], page: usize) -> Action {
        if key.kind == KeyEventKind::Release {
            return Action::Nothing;
        }
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return match key.code {
                KeyCode::Char('c') => Action::Interrupt,
                KeyCode::Char('l') => Action::Redraw,
                _ => Action::Nothing,
            };
        }
        if self.is_typing {
            self.type_filter(key.code);
            return Action::Nothing;
        }
        if self.shows_help {
            self.shows_help = false;
            return Action::Nothing;
        }
        let last = rows.len().saturating_sub(1);
        match key.code {
            KeyCode::Char('q') => return Action::Quit,
            KeyCode::Char('w') => return Action::Save,
            KeyCode::Char('?' | 'h') => self.shows_help = true,
            KeyCode::Char('p' | ' ') => self.is_paused = !self.is_paused,
            KeyCode::Char('t') => self.choice.since_start = !self.choice.since_start,
            KeyCode::Char('s') => self.choice.sort = self.choice.sort.next(),
            KeyCode::Char('/') => {
                self.is_typing = true;
                self.choice.filter.clear();
            }
            KeyCode::Char(digit @ '1'..='6') => {
                self.turn_to(Tab::ALL[digit as usize - '1' as usize]);
            }
            KeyCode::Tab | KeyCode::Right => self.turn_to(self.choice.tab.next(1)),
            KeyCode::BackTab | KeyCode::Left => self.turn_to(self.choice.tab.next(-1)),
            KeyCode::Up | KeyCode::Char('k') => self.place = self.place.saturating_sub(1),
            KeyCode::Down | KeyCode::Char('j') => self.place = (self.place + 1).min(last),
            KeyCode::PageUp => self.place = self.place.saturating_sub(page),
            KeyCode::PageDown => self.place = (self.place + page).min(last),
            KeyCode::Home => self.place = 0,
            KeyCode::End => self.place = last,
            KeyCode::Enter => match rows.get(self.place).copied().unwrap_or_default() {
                RowKey::Symbol(symbol) => self.detail = Some(symbol),
                RowKey::Scope(scope) => self.choice.scope = scope,
                RowKey::Nothing => {}
            },
            KeyCode::Esc => self.back(),
            _ => {}
        }
        Action::Nothing
    }

    fn turn_to(&mut self, tab: Tab) {
        self.choice.tab = tab;
        self.detail = None;
        self.place = 0;
    }

    fn back(&mut self) {
        if self.detail.take().is_some() {
            return;
        }
        match self.choice.scope {
            Scope::All => self.choice.filter.clear(),
            Scope::Process(_) => self.choice.scope = Scope::All,
            Scope::Thread(pid, _) => self.choice.scope = Scope::Process(pid),
        }
    }

    fn type_filter(&mut self, code: KeyCode) {
        match code {
            KeyCode::Enter => self.is_typing = false,
            KeyCode::Esc => {
                self.is_typing = false;
                self.choice.filter.clear();
            }
            KeyCode::Backspace => {
                self.choice.filter.pop();
            }
            KeyCode::Char(letter) if self.choice.filter.len() < 100 => {
                self.choice.filter.push(letter);
            }
            _ => {}
        }
        self.place = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn press(keys: &mut Keys, code: KeyCode) -> Action {
        let rows = [
            RowKey::Symbol(3),
            RowKey::Scope(Scope::Process(7)),
            RowKey::Nothing,
        ];
        keys.press(KeyEvent::new(code, KeyModifiers::NONE), &rows, 2)
    }

    #[test]
    fn a_filter_is_typed_and_cleared() {
        let mut keys = Keys::default();
        for code in [KeyCode::Char('/'), KeyCode::Char('q'), KeyCode::Char('w')] {
            assert_eq!(press(&mut keys, code), Action::Nothing);
        }
        assert_eq!(keys.choice.filter, "qw");
        press(&mut keys, KeyCode::Backspace);
        press(&mut keys, KeyCode::Enter);
        assert_eq!((&*keys.choice.filter, keys.is_typing), ("q", false));
        press(&mut keys, KeyCode::Esc);
        assert_eq!(keys.choice.filter, "");
    }

    #[test]
    fn enter_goes_in_and_escape_comes_back() {
        let mut keys = Keys::default();
        press(&mut keys, KeyCode::Enter);
        assert_eq!(keys.detail, Some(3));
        press(&mut keys, KeyCode::Esc);
        assert_eq!(keys.detail, None);
        press(&mut keys, KeyCode::Down);
        press(&mut keys, KeyCode::Enter);
        assert_eq!(keys.choice.scope, Scope::Process(7));
        press(&mut keys, KeyCode::PageDown);
        press(&mut keys, KeyCode::PageDown);
        assert_eq!(keys.place, 2);
        press(&mut keys, KeyCode::Esc);
        assert_eq!(keys.choice.scope, Scope::All);
        assert_eq!(press(&mut keys, KeyCode::Char('q')), Action::Quit);
        let interrupt = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        assert_eq!(keys.press(interrupt, &[], 1), Action::Interrupt);
    }

    #[test]
    fn lists_come_around() {
        let mut keys = Keys::default();
        press(&mut keys, KeyCode::BackTab);
        assert_eq!(keys.choice.tab, Tab::Output);
        press(&mut keys, KeyCode::Tab);
        assert_eq!(keys.choice.tab, Tab::Functions);
        press(&mut keys, KeyCode::Char('3'));
        assert_eq!(keys.choice.tab, Tab::Kernels);
    }
}
