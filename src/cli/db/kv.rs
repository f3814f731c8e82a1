//! `whoseenv db kv`.

use crate::cli::Global;
use crate::diagnose::db::rows::{self, Kv, Question};
use crate::diagnose::db::{Asked, counted, look};
use crate::report::{Exit, Format, Page, Progress, Report, Style, Text};

/// Plugin storage: whose keys, how large, how old, and whether the plugin is still configured
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Print the value of this key: the host's key, or the plugin's where one plugin alone has it. As it is, but on a terminal
    /// with what would move its cursor made visible; in JSON as the row's value
    #[arg(long, value_name = "KEY")]
    value: Option<String>,
    /// So many at most
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
}

pub fn run(args: &Args, asked: &Asked, global: &Global) -> Exit {
    let question = Question::Kv { one: None, limit: args.limit };
    super::with_store("db-kv", asked, global, Some(&question), |start, store| {
        let progress = Progress::new("db kv", None, asked.quiet);
        if let Some(key) = &args.value {
            if start.printer.format == Format::Human {
                return Ok(start.printer.content(&look::value(store, key, &progress)?));
            }
            let question = Question::Kv { one: Some(look::host_key(store, key, &progress)?), limit: None };
            let configured = super::configured(start, store);
            let data = rows::kv(store, &question, &super::telling(start, &configured), &progress)?;
            return Ok(start.answer(Report::new("db-kv", data), |report| page(&report.data, 1)));
        }
        let configured = super::configured(start, store);
        if start.printer.format == Format::Ndjson {
            return Ok(super::told("db-kv", start, store, &question, &configured, asked.quiet));
        }
        let data = rows::kv(store, &question, &super::telling(start, &configured), &progress)?;
        Ok(start.answer(Report::new("db-kv", data), |report| page(&report.data, args.limit.unwrap_or(super::SHOWN))))
    })
}

fn page(data: &Kv, limit: u64) -> Page {
    let mut page = Page::new();
    super::read_line(&mut page, &data.store, data.read_as);
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    if data.entries.is_empty() {
        page.line(0, super::none(limit, "No plugin keeps anything there."));
    }
    let rows = data.entries.iter().take(limit).map(|entry| {
        let whose = entry.plugin.as_deref().unwrap_or(entry.scope.word());
        let configured = entry.configured.as_deref().unwrap_or_default();
        let style = if configured == "no" { Style::Warn } else { Style::Plain };
        let shape = entry.shape.as_ref().map_or("not read", |shape| shape.r#type.as_str());
        vec![
            Text::plain(whose),
            Text::plain(entry.key.as_deref().unwrap_or("(no text)")),
            Text::plain(format!("{shape}, {}", counted(entry.bytes, "byte", "bytes"))),
            Text::plain(super::age(entry.age_ms)),
            Text::styled(style, configured),
        ]
    });
    page.table(0, vec!["PLUGIN", "KEY", "VALUE", "AGE", "CONFIGURED"], rows.collect());
    super::more(&mut page, limit, data.entries.len());
    if data.entries.iter().any(|entry| entry.configured.as_deref() == Some("unknown")) {
        page.gap();
        for unknown in &data.configs_unknown {
            page.line(0, Text::styled(Style::Dim, format!("not known: {unknown}")));
        }
    }
    page
}
