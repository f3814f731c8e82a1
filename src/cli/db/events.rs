//! `whoseenv db events`.

use crate::cli::Global;
use crate::diagnose::db::look::{self, Events};
use crate::diagnose::db::{Asked, counted};
use crate::report::{Exit, Page, Progress, Report, Style, Text};

/// Events that a host keeps: how many of which type, whose, gaps, the last ones; never their content
#[derive(Debug, clap::Args)]
pub struct Args {
    /// So many of the last events
    #[arg(long, value_name = "N", default_value_t = 10)]
    last: u64,
    /// So many aggregates at most: those with gaps, then those with the most events
    #[arg(long, value_name = "N", default_value_t = 20)]
    limit: usize,
}

pub fn run(args: &Args, asked: &Asked, global: &Global) -> Exit {
    super::with_store("db-events", asked, global, None, |start, store| {
        let progress = Progress::new("db events", None, asked.quiet);
        let data = look::events(store, args.last.min(10_000), args.limit.min(10_000), &progress)?;
        Ok(start.answer(Report::new("db-events", data), |report| page(&report.data)))
    })
}

fn page(data: &Events) -> Page {
    let mut page = Page::new();
    super::read_line(&mut page, &data.store, data.read_as);
    let events = &data.events;
    page.line(
        0,
        format!(
            "{} of {}; gaps in {}.",
            counted(events.count, "event", "events"),
            counted(events.aggregates_count, "aggregate", "aggregates"),
            events.gaps_count
        ),
    );
    if events.emptied_count > 0 {
        let message = format!(
            "{} in event_sequence {} no event.",
            counted(events.emptied_count, "more aggregate", "more aggregates"),
            if events.emptied_count == 1 { "has" } else { "have" }
        );
        page.line(0, Text::styled(Style::Warn, message));
    }
    page.gap();
    let types = events.types.iter().map(|one| vec![Text::plain(one.count.to_string()), Text::plain(&one.r#type)]);
    page.table(0, vec!["COUNT", "TYPE"], types.collect());
    page.gap();
    let aggregates = events.aggregates.iter().map(|one| {
        let missing = match (one.missing, one.fork) {
            (0, false) => Text::default(),
            (0, true) => Text::plain("a fork"),
            _ => Text::styled(Style::Warn, format!("missing: {}", one.gaps())),
        };
        vec![
            Text::plain(one.count.to_string()),
            Text::plain(&one.id),
            Text::plain(format!("{} to {}", one.first_seq, one.last_seq)),
            missing,
        ]
    });
    page.table(0, vec!["COUNT", "AGGREGATE", "SEQ", ""], aggregates.collect());
    page.gap();
    let last = events.last.iter().map(|one| {
        let time = one.time_created.as_deref().unwrap_or_default();
        vec![
            Text::plain(&one.aggregate_id),
            Text::plain(one.seq.to_string()),
            Text::plain(&one.r#type),
            Text::plain(time),
            Text::plain(counted(one.bytes, "byte", "bytes")),
        ]
    });
    page.table(0, vec!["LAST, OF", "SEQ", "TYPE", "AT", "CONTENT"], last.collect());
    page
}
