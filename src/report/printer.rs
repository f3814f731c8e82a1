//! Where output goes: data to stdout, everything else to stderr; which face; how wide; in which colours.

use std::io::{self, BufWriter, ErrorKind, IsTerminal, Write};

use serde::Serialize;
use serde_json::Value;

use crate::host::Machine;
use crate::redact::terminal::clean;
use crate::verdict::Severity;

use super::human::Screen;
use super::{Envelope, Exit, Page, Problem, Report, Rows, json};

/// Which face.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Format {
    /// For a person.
    #[default]
    Human,
    /// One JSON document.
    Json,
    /// One JSON value a line.
    Ndjson,
}

/// When to use colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Colour {
    /// On a terminal, unless `NO_COLOR` is set.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// Changes a JSON value before it is printed.
pub type Rewrite = Box<dyn Fn(&mut Value)>;

/// Where output goes, and how.
pub struct Printer {
    /// Which face.
    pub format: Format,
    /// Exit code only.
    pub quiet: bool,
    /// Findings at or above this make the exit code 1.
    pub fail_on: Severity,
    screen: Screen,
    rewrite: Option<Rewrite>,
}

impl Printer {
    /// A printer for this process's stdout.
    pub fn new(format: Format, colour: Colour, quiet: bool, fail_on: Severity) -> Printer {
        let stdout = io::stdout();
        let terminal = stdout.is_terminal();
        let width = std::env::var("WHOSEENV_WIDTH").ok().and_then(|columns| columns.parse().ok()).or_else(|| {
            let size = terminal.then(|| rustix::termios::tcgetwinsize(&stdout).ok()).flatten()?;
            Some(usize::from(size.ws_col)).filter(|columns| *columns > 0)
        });
        let colour = match colour {
            Colour::Always => true,
            Colour::Never => false,
            Colour::Auto => terminal && supports_colour(),
        };
        let screen = Screen { width: width.map(|columns| columns.max(20)), colour };
        Printer { format, quiet, fail_on, screen, rewrite: None }
    }

    /// Sees every JSON value before it is printed (`--anonymize`).
    pub fn rewrite(&mut self, rewrite: Rewrite) {
        self.rewrite = Some(rewrite);
    }

    /// Prints a report; `page` makes its human face.
    pub fn report<T: Serialize>(&self, machine: &Machine, report: &Report<T>, page: impl FnOnce(&Report<T>) -> Page) -> Exit {
        let exit = Exit::of(report, self.fail_on);
        if self.quiet {
            return exit;
        }
        self.print(exit, |out| match self.format {
            Format::Human => self.screen.write(&self.rewritten(page(report)), out),
            Format::Json | Format::Ndjson => {
                let mut envelope = Envelope::new(report.command, Some(machine), exit);
                envelope.findings = &report.findings;
                envelope.notes = &report.notes;
                envelope.data = Some(&report.data);
                match self.format {
                    Format::Ndjson => json::line(&envelope, self.rewrite.as_deref(), out),
                    _ => json::document(&envelope, self.rewrite.as_deref(), out),
                }
            }
        })
    }

    /// Prints an answer: as ndjson row by row (see [`super::rows`]), else as [`Printer::report`] does.
    pub fn answer<T: Rows>(&self, machine: &Machine, report: Report<T>, page: impl FnOnce(&Report<T>) -> Page) -> Exit {
        if self.format != Format::Ndjson || self.quiet {
            return self.report(machine, &report, page);
        }
        let (mut head, mut rows) = (None, Vec::new());
        let report = report.map(|data| (head, rows) = data.head_and_rows());
        self.rows(machine, &report, head.as_ref(), &rows)
    }

    /// Prints rows as ndjson: a head line with what belongs to no row, a line a row, a tail line with status and findings.
    pub fn rows<R: Serialize + Sync>(&self, machine: &Machine, report: &Report<()>, data: Option<&Value>, rows: &[R]) -> Exit {
        let exit = Exit::of(report, self.fail_on);
        if self.quiet {
            return exit;
        }
        self.print(exit, |out| {
            let mut head = Envelope::new(report.command, Some(machine), exit);
            head.data = data;
            json::line(&head, self.rewrite.as_deref(), out)?;
            json::lines(rows, self.rewrite.as_deref(), out)?;
            let mut tail = Envelope::<()>::new(report.command, None, exit);
            tail.findings = &report.findings;
            tail.notes = &report.notes;
            json::line(&tail, self.rewrite.as_deref(), out)
        })
    }

    /// Prints rows as ndjson while they are found: a head line with the status `streaming`, what `write` writes, a tail line
    /// with status and findings. A problem in mid-stream is a line of its own in place of the tail.
    pub fn stream(
        &self,
        command: &'static str,
        machine: &Machine,
        write: impl FnOnce(&mut Lines<'_>) -> io::Result<Result<Report<()>, Problem>>,
    ) -> Exit {
        let mut exit = Exit::Ok;
        let printed = self.print(Exit::Ok, |out| {
            let rewrite = self.rewrite.as_deref();
            let mut nowhere = io::sink();
            let mut lines = Lines { out: if self.quiet { &mut nowhere } else { out }, rewrite };
            let mut head = Envelope::<()>::new(command, Some(machine), Exit::Ok);
            head.status = "streaming";
            lines.row(&head)?;
            match write(&mut lines)? {
                Ok(report) => {
                    exit = Exit::of(&report, self.fail_on);
                    let mut tail = Envelope::<()>::new(command, None, exit);
                    tail.findings = &report.findings;
                    tail.notes = &report.notes;
                    lines.row(&tail)
                }
                Err(problem) => {
                    exit = problem.exit;
                    let mut tail = Envelope::<()>::new(command, None, exit);
                    tail.error = Some(&problem);
                    lines.row(&tail)
                }
            }
        });
        // An output that failed outweighs what was found; a reader that went away does not.
        if printed == Exit::Ok { exit } else { printed }
    }

    /// Prints why there is no answer: to stderr for a person, as an envelope on stdout for a program.
    pub fn problem(&self, command: &str, machine: Option<&Machine>, problem: &Problem) -> Exit {
        if self.quiet {
            return problem.exit;
        }
        match self.format {
            Format::Human => complain(&Problem {
                message: self.text_rewritten(&problem.message),
                hints: problem.hints.iter().map(|hint| self.text_rewritten(hint)).collect(),
                exit: problem.exit,
            }),
            Format::Json | Format::Ndjson => self.print(problem.exit, |out| {
                let mut envelope = Envelope::<()>::new(command, machine, problem.exit);
                envelope.error = Some(problem);
                match self.format {
                    Format::Ndjson => json::line(&envelope, self.rewrite.as_deref(), out),
                    _ => json::document(&envelope, self.rewrite.as_deref(), out),
                }
            }),
        }
    }

    /// Prints text that is made for programs, such as completions: as it is.
    pub fn text(&self, text: &[u8]) -> Exit {
        self.print(Exit::Ok, |out| out.write_all(text))
    }

    /// Prints a page without a report around it.
    pub fn page(&self, page: &Page) -> Exit {
        self.print(Exit::Ok, |out| self.screen.write(page, out))
    }

    fn text_rewritten(&self, text: &str) -> String {
        let Some(rewrite) = &self.rewrite else { return text.to_owned() };
        let mut value = Value::String(text.to_owned());
        rewrite(&mut value);
        value.as_str().unwrap_or_default().to_owned()
    }

    fn rewritten(&self, mut page: Page) -> Page {
        if self.rewrite.is_some() {
            page.texts(&mut |text| *text = pieces(text).map(|piece| self.text_rewritten(piece)).collect());
        }
        page
    }

    fn print(&self, exit: Exit, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Exit {
        let mut out = BufWriter::with_capacity(64 << 10, io::stdout().lock());
        let written = write(&mut out).and_then(|()| out.flush());
        // What is still buffered after an error must not be tried again when the buffer goes.
        drop(out.into_parts());
        match written {
            Ok(()) => exit,
            Err(error) if error.kind() == ErrorKind::BrokenPipe => Exit::Ok,
            Err(error) => complain(&Problem::new(Exit::Io, format!("cannot write to stdout: {error}"))),
        }
    }
}

/// Where the rows of a stream go.
pub struct Lines<'a> {
    out: &'a mut dyn Write,
    rewrite: Option<&'a dyn Fn(&mut Value)>,
}

impl Lines<'_> {
    /// One row.
    ///
    /// # Errors
    /// Whatever the writer says; the command gives it back, so that the stream ends.
    pub fn row<T: Serialize>(&mut self, row: &T) -> io::Result<()> {
        json::line(row, self.rewrite, self.out)
    }

    /// Whether rows pass through a rewriter (`--anonymize`), so that [`Lines::ready`] may not be used.
    pub fn rewrites(&self) -> bool {
        self.rewrite.is_some()
    }

    /// Lines that are ready: whole JSON values, a line each, with every character a terminal would act on escaped.
    ///
    /// # Errors
    /// Whatever the writer says.
    pub fn ready(&mut self, lines: &[u8]) -> io::Result<()> {
        self.out.write_all(lines)
    }
}

/// The text in pieces that begin behind a line break made visible: `\\nalice` holds the word `alice`.
fn pieces(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let ends = ["\\n", "\\r", "\\t"].iter().filter_map(|escape| Some(rest.find(escape)? + escape.len())).min();
        let (piece, after) = rest.split_at(ends.unwrap_or(rest.len()));
        rest = after;
        (!piece.is_empty()).then_some(piece)
    })
}

/// One message on stderr, the remedy after an empty line.
pub fn complain(problem: &Problem) -> Exit {
    let mut text = format!("whoseenv: {}\n", clean(&problem.message));
    if !problem.hints.is_empty() {
        text.push('\n');
        for hint in &problem.hints {
            text.push_str(&format!("  {}\n", clean(hint)));
        }
    }
    // With stderr gone too there is nobody left to tell.
    let _ = io::stderr().write_all(text.as_bytes());
    problem.exit
}

/// A note on stderr for a person, such as which process `self` was.
pub fn note(text: &str) {
    let _ = io::stderr().write_all(format!("whoseenv: {}\n", clean(text)).as_bytes());
}

/// By `NO_COLOR`, which counts as unset where it is empty (no-color.org), and by the kind of terminal.
fn supports_colour() -> bool {
    use owo_colors::{OwoColorize, Stream};
    match std::env::var_os("NO_COLOR") {
        Some(value) if !value.is_empty() => return false,
        // The library takes an empty one for a set one.
        Some(_) => return std::env::var_os("TERM").is_some_and(|term| !term.is_empty() && term != "dumb"),
        None => {}
    }
    "x".if_supports_color(Stream::Stdout, |text| text.red()).to_string() != "x"
}
