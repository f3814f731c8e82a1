//! `whoseenv db inbox`.

use crate::agent::plugins::Configured;
use crate::cli::Global;
use crate::diagnose::db::rows::{self, Inbox, Question};
use crate::diagnose::db::{Asked, counted};
use crate::report::{Exit, Format, Page, Progress, Report, Style, Text};

/// Work that waits, in the order in which it will be taken; what the next wake takes
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Of this session alone; then also what events tell of its rows
    #[arg(value_name = "SESSION")]
    session: Option<String>,
    /// Show the text of each row
    #[arg(long)]
    show_text: bool,
    /// So many at most
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
}

pub fn run(args: &Args, asked: &Asked, global: &Global) -> Exit {
    let question = Question::Inbox { session: args.session.clone(), show_text: args.show_text, limit: args.limit };
    super::with_store("db-inbox", asked, global, Some(&question), |start, store| {
        let configured = Configured::default();
        if start.printer.format == Format::Ndjson {
            return Ok(super::told("db-inbox", start, store, &question, &configured, asked.quiet));
        }
        let progress = Progress::new("db inbox", None, asked.quiet);
        let telling = super::telling(start, &configured);
        let data = rows::inbox(store, args.session.as_deref(), args.show_text, args.limit, &telling, &progress)?;
        Ok(start.answer(Report::new("db-inbox", data), |report| page(&report.data, args)))
    })
}

fn page(data: &Inbox, args: &Args) -> Page {
    let mut page = Page::new();
    super::read_line(&mut page, &data.store, data.read_as);
    let limit = usize::try_from(args.limit.unwrap_or(super::SHOWN)).unwrap_or(usize::MAX);
    if data.rows.is_empty() {
        page.line(0, super::none(limit, "Nothing waits."));
    } else {
        page.line(0, format!("Each {}.", data.author));
        page.gap();
    }
    let rows = data.rows.iter().take(limit).map(|row| {
        let plain = |text: &Option<String>| Text::plain(text.as_deref().unwrap_or_default());
        let next = if row.next_wake { Text::styled(Style::Warn, "next wake") } else { Text::default() };
        let shape = match &row.payload.not_read {
            Some(reason) => format!("not read: {reason}"),
            None => format!("{{{}}}", row.payload.keys.join(", ")),
        };
        let mut cells = vec![
            plain(&row.session_id),
            plain(&row.id),
            Text::plain(row.seq.map(|seq| seq.to_string()).unwrap_or_default()),
            plain(&row.r#type),
            plain(&row.delivery),
            Text::plain(super::age(row.age_ms)),
            Text::plain(format!("{shape}, {}", counted(row.payload.bytes, "byte", "bytes"))),
            next,
        ];
        if args.show_text {
            cells.push(plain(if row.payload.not_read.is_some() { &row.payload.not_read } else { &row.payload.text }));
        }
        cells
    });
    let mut heads = vec!["SESSION", "ROW", "SEQ", "TYPE", "DELIVERY", "AGE", "PAYLOAD", "TAKEN BY"];
    if args.show_text {
        heads.push("TEXT");
    }
    page.table(0, heads, rows.collect());
    super::more(&mut page, limit, data.rows.len());
    if let Some(lives) = data.lives.as_ref().filter(|lives| !lives.is_empty()) {
        page.heading("What events tell of its rows");
        let place = |seq: Option<i64>| Text::plain(seq.map(|seq| seq.to_string()).unwrap_or_default());
        let rows = lives
            .iter()
            .map(|life| vec![Text::plain(&life.id), place(life.enqueued_seq), place(life.delivered_seq), place(life.cancelled_seq)]);
        page.table(0, vec!["ROW", "ENQUEUED", "DELIVERED", "CANCELLED"], rows.collect());
    }
    page
}
