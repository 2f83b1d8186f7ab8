//! `cutrace top`: a live screen of a run, or frames of it as plain text.

mod detail;
mod draw;
mod keys;
mod model;
mod output;
mod terminal;

use super::{
    live::{Saved, Watch},
    recording::Watched,
    style::{style, style_on_terminal},
};
use crate::{
    arguments::Top,
    say::{self, say},
};
use anyhow::{Context, Result};
use capture::launch::{Exit, block_signals};
use draw::{Canvas, plain};
use keys::{Action, Keys};
use model::{Model, RowKey};
use output::CommandOutput;
use ratatui::{
    crossterm::event::{self, Event},
    text::Text,
};
use render::{Style, units};
use std::{
    fs::File,
    io::{self, Write},
    os::fd::AsFd,
    process::ExitCode,
    sync::{Arc, mpsc},
    thread,
    time::{Duration, Instant},
};
use terminal::{Aside, Screen};

/// How often keys are looked at.
const LOOK: Duration = Duration::from_millis(50);
/// How long a message stays.
const MESSAGE: Duration = Duration::from_secs(6);
/// How long the last frame may take.
const LONGEST_END: Duration = Duration::from_secs(10);
/// For the first event of a process that runs already; then frames say that there are none.
const LONGEST_WAIT: Duration = Duration::from_secs(15);
/// Columns and lines of frames in a pipe or a file.
const PLAIN: (usize, usize) = (80, 24);

pub fn run(mut options: Top) -> Result<ExitCode> {
    options.record.quiet = true;
    let watch = Watch::new(options.keep, None);
    match options.batch {
        Some(frames) => batch(options, &watch, frames),
        None => screen(options, &watch),
    }
}

/// How cutrace ends when the run is over.
fn finish(options: &Top, watched: Watched) -> Result<ExitCode> {
    if watched.lost > 0 {
        say!(
            "cutrace: {} events were dropped",
            units::count(watched.lost)
        );
    }
    for note in watched.notes.iter().filter(|_| options.batch.is_none()) {
        say!("cutrace: {note}");
    }
    match options.record.run.is_command() {
        true => watched.exit.pass_on(),
        false => Exit::Code(0).pass_on(),
    }
}

/// Frames as text on standard output.
fn batch(mut options: Top, watch: &Arc<Watch>, frames: u64) -> Result<ExitCode> {
    let style = style(&options.look);
    let (aside, mut out) = match options.record.run.is_command() {
        true => Aside::output_to_errors().map(|(aside, out)| (Some(aside), out))?,
        false => (None, File::from(io::stdout().as_fd().try_clone_to_owned()?)),
    };
    let is_attached = !options.record.run.is_command();
    let (interval, width) = (options.interval, options.look.width);
    let other = Arc::clone(watch);
    let printer = thread::spawn(move || -> Result<()> {
        block_signals();
        let mut model = Model::new();
        let keys = Keys::default();
        let canvas = Canvas {
            style: &Style {
                color: false,
                ..style
            },
            width: width.map_or(PLAIN.0, usize::from),
            height: PLAIN.1,
            output: &[],
            message: Some(""),
        };
        if is_attached {
            wait_for_hooks(&other);
        }
        let mut printed = 0;
        model.sample(&other, &keys.choice);
        loop {
            let until = Instant::now() + interval;
            while Instant::now() < until && !other.has_ended() {
                thread::sleep(LOOK.min(until.saturating_duration_since(Instant::now())));
            }
            model.sample(&other, &keys.choice);
            let picture = model.picture(&other, &keys.choice, None);
            let lines = canvas.frame(&picture, &keys);
            let text: Vec<String> = lines.iter().map(plain).collect();
            writeln!(out, "{}\n", text.join("\n").trim_end())?;
            printed += 1;
            if other.has_ended() || frames > 0 && printed >= frames {
                break;
            }
        }
        if is_attached && !other.has_ended() {
            stop_watching();
        }
        Ok(())
    });
    let watched = watch.run(&mut options.record)?;
    match printer.join() {
        // The reader has seen enough.
        Ok(Err(why)) if super::is_broken_pipe(&why) => {}
        Ok(done) => done?,
        Err(_) => anyhow::bail!("the frames could not be drawn"),
    }
    drop(aside);
    finish(&options, watched)
}

/// Attaching takes a while: frames of it would be empty.
fn wait_for_hooks(watch: &Watch) {
    let until = Instant::now() + LONGEST_WAIT;
    while Instant::now() < until && !watch.has_ended() && watch.state().live.events() == 0 {
        thread::sleep(LOOK);
    }
}

/// The screen, and what the command prints somewhere else meanwhile.
fn screen(mut options: Top, watch: &Arc<Watch>) -> Result<ExitCode> {
    let output = CommandOutput::create(options.output.as_deref())?;
    let style = style_on_terminal(&options.look);
    let mut screen = terminal::enter()?;
    let aside = Aside::put(output.file()).context("cannot move the command's output aside")?;
    let shown = Shown {
        watch: Arc::clone(watch),
        style,
        interval: options.interval,
        is_command: options.record.run.is_command(),
        output: output.reader(),
    };
    let shows = thread::Builder::new()
        .name("screen".into())
        .spawn(move || {
            block_signals();
            let saved = shown.show(&mut screen);
            terminal::leave(&mut screen);
            saved
        })?;
    let watched = watch.run(&mut options.record);
    let shown = ended(&shows).then(|| shows.join());
    drop(aside);
    let saved = match shown.unwrap_or(Ok(Ok(Vec::new()))) {
        Ok(Ok(saved)) => saved,
        Ok(Err(why)) => {
            say!("cutrace: the screen ended: {why}");
            Vec::new()
        }
        // The panic has said why.
        Err(_) => Vec::new(),
    };
    output.finish();
    saved
        .iter()
        .for_each(|saved| say::line(format_args!("{}", in_words(saved))));
    finish(&options, watched?)
}

/// Whether the screen's thread has ended, or does within a moment: a terminal that went away just when it was read from
/// keeps it for good.
fn ended<T>(shows: &thread::JoinHandle<T>) -> bool {
    let until = Instant::now() + LONGEST_END;
    while !shows.is_finished() && Instant::now() < until {
        thread::sleep(LOOK / 10);
    }
    shows.is_finished()
}

fn in_words(saved: &Saved) -> String {
    format!(
        "cutrace: saved {:.1} s, {} events, to {}",
        saved.seconds,
        units::count(saved.events),
        saved.path.display()
    )
}

/// As Ctrl-C does where a process or the machine is watched.
fn stop_watching() {
    // SAFETY: plain system calls.
    unsafe { libc::kill(libc::getpid(), libc::SIGINT) };
}

struct Shown {
    watch: Arc<Watch>,
    style: Style,
    interval: Duration,
    is_command: bool,
    output: output::Tail,
}

impl Shown {
    /// Until the run is over or the user has seen enough. What was saved.
    fn show(mut self, screen: &mut Screen) -> Result<Vec<Saved>> {
        let (mut model, mut keys) = (Model::new(), Keys::default());
        let (mut saved, mut message): (Vec<Saved>, Option<(Instant, String)>) = Default::default();
        let (done, is_done) = mpsc::channel::<Result<Saved>>();
        model.sample(&self.watch, &keys.choice);
        let mut picture = model.picture(&self.watch, &keys.choice, keys.detail);
        let mut due = Instant::now() + self.interval.min(Duration::from_millis(300));
        loop {
            terminal::continue_after_stop(screen)?;
            let has_ended = self.watch.has_ended();
            if has_ended || Instant::now() >= due && !keys.is_paused {
                model.sample(&self.watch, &keys.choice);
                picture = model.picture(&self.watch, &keys.choice, keys.detail);
                self.output.look();
                due = Instant::now() + self.interval;
            }
            message = message.filter(|(since, _)| since.elapsed() < MESSAGE);
            for end in is_done.try_iter() {
                let words = match &end {
                    Ok(saved) => in_words(saved),
                    Err(why) => format!("not saved: {why:#}"),
                };
                message = Some((
                    Instant::now(),
                    words.trim_start_matches("cutrace: ").to_owned(),
                ));
                saved.extend(end);
            }
            let size = screen.size()?;
            let canvas = Canvas {
                style: &self.style,
                width: size.width.into(),
                height: size.height.into(),
                output: self.output.lines(),
                message: message.as_ref().map(|(_, words)| &**words),
            };
            let (lines, page) = (canvas.frame(&picture, &keys), canvas.page());
            screen.draw(|frame| frame.render_widget(Text::from(lines), frame.area()))?;
            if has_ended {
                return Ok(saved);
            }
            if !terminal::wait_for_keys(LOOK) {
                if !self.is_command {
                    stop_watching();
                }
                return Ok(saved);
            }
            if !event::poll(Duration::ZERO)? {
                continue;
            }
            let Event::Key(key) = event::read()? else {
                continue;
            };
            let rows: Vec<RowKey> = picture.rows.iter().map(|row| row.what).collect();
            match keys.press(key, &rows, page) {
                Action::Nothing => {}
                Action::Redraw => screen.clear()?,
                Action::Save => {
                    message = Some((Instant::now(), "saving...".to_owned()));
                    self.save(&done);
                }
                Action::Interrupt if self.is_command => self.interrupt(),
                Action::Quit | Action::Interrupt => {
                    if !self.is_command {
                        stop_watching();
                    }
                    return Ok(saved);
                }
            }
            // What was chosen shows at once.
            if !keys.is_paused || keys.detail.is_some() {
                if picture_is_of_another(&model, &keys) {
                    model.sample(&self.watch, &keys.choice);
                }
                picture = model.picture(&self.watch, &keys.choice, keys.detail);
            }
        }
    }

    fn interrupt(&self) {
        if let Some(pid) = self.watch.pid() {
            // SAFETY: a plain system call; the command has not been waited for while the run goes on.
            unsafe { libc::kill(pid as libc::pid_t, libc::SIGINT) };
        }
    }

    /// In a thread of its own: the screen goes on.
    fn save(&self, done: &mpsc::Sender<Result<Saved>>) {
        let (snapshot, meta) = {
            let state = self.watch.state();
            (state.recent.snapshot(), state.meta.clone())
        };
        let done = done.clone();
        thread::spawn(move || {
            block_signals();
            let _ = done.send(snapshot.save(&meta));
        });
    }
}

fn picture_is_of_another(model: &Model, keys: &Keys) -> bool {
    model.scope() != keys.choice.scope
}
