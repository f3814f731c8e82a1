//! OpenCode: its programs, the modes it is started in, and what repairs its environment.
//!
//! The program is a Bun single-file executable. Its build compiles `--user-agent=opencode/1.18.34` in (next-16350:
//! `opencode2/0.0.0-next-16350`; 2.x: `opencode/<channel>/<version>/cli`), which tells the product and its version.
//! The generation comes from strings in its JavaScript, never from the version.

use std::io;

use memchr::memmem::Finder;

use super::{AgentProcess, Generation, Mode, Role};
use crate::binary::bun::Payload;
use crate::binary::read::{ReadAt, holds, pieces};
use crate::host::Raw;

mod registration;
mod remedy;
pub mod service_file;
mod unregistered;

pub use registration::{ListenerFact, PidFact, Registration, registrations};
pub use service_file::{Registered, Roots, ServiceConfig, service_configs};

/// OpenCode 1.x, the 2.0 preview and 2.x.
pub struct OpenCode;

/// Id in the catalogue.
pub(super) use crate::binary::product::OPENCODE as ID;

/// What a string in the JavaScript proves.
struct Marker {
    text: &'static [u8],
    proves: Generation,
}

/// In order: the first string found decides. Counted in the real programs: `session.environment`
/// stands in 2.0.24 and in neither 1.18.34 nor next-16350; `"--service"` stands in next-16350 and not in 1.18.34;
/// `/config/providers` stands in every 0.x and 1.x that was looked at, and not in next-16350.
const LATER: [Marker; 3] = [
    Marker { text: b"(\"session.environment", proves: Generation::V2 },
    Marker { text: b"\"--service\"", proves: Generation::Preview },
    Marker { text: b"/config/providers", proves: Generation::V1 },
];

/// Stands in the entry module of 1.18.34 (it is laid on its tools) and nowhere in next-16350.
const FIRST: Marker = Marker { text: b"OPENCODE_PID", proves: Generation::V1 };

/// Which generation the program's JavaScript shows; none where no string decides, or there is too much to read.
///
/// 1.18.34 is decided by its entry module (200 KB); the preview has 17 MB of JavaScript, all of which is read.
///
/// The strings are those of `binary/fingerprints.toml`, which a test compares. The table itself is not asked: a row of it also
/// names what must not be there, which takes all of a program's JavaScript to know, and `ps` has no time for that.
pub(super) fn generation(file: &dyn ReadAt, payload: &Payload) -> io::Result<Option<Generation>> {
    const LIMIT: u64 = 96 << 20;
    let Some(entry) = payload.scripts.first() else { return Ok(None) };
    if holds(file, entry.clone(), FIRST.text)? {
        return Ok(Some(FIRST.proves));
    }
    if payload.scripts.iter().map(|script| script.end - script.start).sum::<u64>() > LIMIT {
        return Ok(None);
    }
    let finders = LATER.each_ref().map(|marker| Finder::new(marker.text));
    let overlap = LATER.iter().map(|marker| marker.text.len()).max().unwrap_or_default();
    let mut found = LATER.len();
    for script in &payload.scripts {
        pieces(file, script.clone(), overlap, |piece| {
            // A stronger string may still follow a weaker one, not the other way round.
            found = (0..found).find(|&index| finders[index].find(piece).is_some()).unwrap_or(found);
            found == 0
        })?;
        if found == 0 {
            break;
        }
    }
    Ok(LATER.get(found).map(|marker| marker.proves))
}

/// The mode that the arguments of a process known as OpenCode select.
pub(super) fn mode(argv: &[Raw]) -> Mode {
    /// Flags that take the next argument.
    const VALUED: &[&str] = &[
        "--log-level",
        "--port",
        "--hostname",
        "--mdns-domain",
        "--cors",
        "--model",
        "-m",
        "--session",
        "-s",
        "--prompt",
        "--agent",
        "--replay-limit",
        "--server",
    ];
    let has = |flag: &str| argv.iter().any(|arg| arg.as_bytes() == flag.as_bytes());
    let mut words = argv.iter().skip(1);
    let mut command = None;
    while let Some(arg) = words.next() {
        match arg.as_str() {
            Some(flag) if VALUED.contains(&flag) => drop(words.next()),
            Some(flag) if flag.starts_with('-') => {}
            word => {
                command = word;
                break;
            }
        }
    }
    match command {
        Some("serve") if has("--service") => Mode::Service,
        Some("serve") if has("--stdio") => Mode::Standalone,
        Some("serve") => Mode::Serve,
        Some("web") => Mode::Web,
        Some("run") => Mode::Run,
        Some("acp") => Mode::Acp,
        Some("attach") => Mode::Attach,
        Some("mini") => Mode::Mini,
        Some("api") => Mode::Api,
        Some(
            "agent" | "auth" | "completion" | "console" | "db" | "debug" | "export" | "github" | "import" | "mcp" | "migrate" | "models"
            | "pair" | "plug" | "plugin" | "pr" | "providers" | "service" | "session" | "stats" | "uninstall" | "upgrade",
        ) => Mode::Command,
        _ if has("--mini") => Mode::Mini,
        // No command, or the project's directory in its place.
        _ => Mode::Tui,
    }
}

/// The role of a process in this mode. OpenCode 1.x serves from within the interface when it was given a port.
pub(super) fn role(mode: Mode, listens: bool) -> Role {
    match mode {
        Mode::Service | Mode::Serve | Mode::Web | Mode::Standalone => Role::Daemon,
        _ if listens => Role::Daemon,
        _ => Role::Client,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::binary::bun::{made_payload, payload};
    use crate::binary::elf::{made_elf, sections};
    use crate::binary::product;

    fn argv(words: &[&str]) -> Vec<Raw> {
        words.iter().map(|word| Raw::from(*word)).collect()
    }

    #[test]
    fn modes_are_those_of_the_real_command_lines() {
        for (words, expected) in [
            (&["/x/opencode2", "serve", "--service"][..], Mode::Service),
            (&["/x/opencode2", "serve", "--stdio", "--port", "0"], Mode::Standalone),
            (&["opencode2", "serve"], Mode::Serve),
            (&["opencode", "--print-logs", "--log-level", "DEBUG", "serve", "--port", "4096"], Mode::Serve),
            (&["opencode", "web"], Mode::Web),
            (&["opencode"], Mode::Tui),
            (&["opencode2", "--standalone"], Mode::Tui),
            (&["opencode", "/home/u/project"], Mode::Tui),
            (&["opencode", "--port", "4096"], Mode::Tui),
            (&["opencode", "--prompt", "serve"], Mode::Tui),
            (&["opencode", "run", "hello"], Mode::Run),
            (&["opencode2", "acp"], Mode::Acp),
            (&["opencode2", "mini"], Mode::Mini),
            (&["opencode", "--mini"], Mode::Mini),
            (&["opencode2", "service", "restart"], Mode::Command),
            (&["opencode2", "api", "get", "/api/health"], Mode::Api),
            (&[], Mode::Tui),
        ] {
            assert_eq!(mode(&argv(words)), expected, "{words:?}");
        }
    }

    #[test]
    fn a_listener_makes_the_interface_of_1_x_a_daemon() {
        assert_eq!(role(Mode::Tui, false), Role::Client);
        assert_eq!(role(Mode::Tui, true), Role::Daemon);
        assert_eq!(role(Mode::Standalone, false), Role::Daemon);
    }

    fn facts(arguments: &str, sources: &[&str]) -> Option<(Option<String>, Option<Generation>)> {
        let mut file = made_elf(&[]);
        file.extend_from_slice(&made_payload(arguments, sources));
        let payload = payload(&file, &sections(&file).unwrap().unwrap()).unwrap().unwrap();
        let facts = product::opencode(&file, &payload).unwrap()?;
        Some((facts.version, generation(&file, &payload).unwrap()))
    }

    #[test]
    fn product_version_and_generation_are_read_apart() {
        let version = |text: &str| Some(text.to_owned());
        assert_eq!(
            facts("--user-agent=opencode/1.18.34 --use-system-ca --", &["OPENCODE_PID", ""]),
            Some((version("1.18.34"), Some(Generation::V1)))
        );
        assert_eq!(
            facts("--user-agent=opencode2/0.0.0-next-16350 --use-system-ca --", &["x", "[\"serve\",\"--service\"]"]),
            Some((version("0.0.0-next-16350"), Some(Generation::Preview)))
        );
        assert_eq!(
            facts("--user-agent=opencode/latest/2.0.24/cli --", &["\"--service\"", "x", "d.put(\"session.environment\",\"/x\")"]),
            Some((version("2.0.24"), Some(Generation::V2)))
        );
        let sentence = "note(\"changelog: removed session.environment from upload\")";
        assert_eq!(facts("--user-agent=opencode/1.18.34 --", &[sentence]), Some((version("1.18.34"), None)), "a sentence proves nothing");
        assert_eq!(
            facts("--user-agent=opencode/1.0.0 --", &["x", ".get(\"/config/providers\",y)"]),
            Some((version("1.0.0"), Some(Generation::V1)))
        );
        assert_eq!(facts("--user-agent=opencode/9.9.9 --", &["x"]), Some((version("9.9.9"), None)), "a version proves no generation");
        assert_eq!(facts("--user-agent=opencode-grok/1.0.0 --", &["OPENCODE_PID"]), None, "a fork is another product");
        assert_eq!(facts("--", &["process.env.OPENCODE_PID"]), None, "whatever runs below OpenCode reads that");
        assert_eq!(facts("--", &["another program"]), None);
    }

    #[test]
    fn every_marker_is_a_string_of_the_table_for_the_same_generation() {
        let table = crate::binary::fingerprints::Table::built_in();
        for marker in LATER.iter().chain([&FIRST]) {
            let text = std::str::from_utf8(marker.text).unwrap();
            let has = |strings: &[String]| strings.iter().any(|string| string == text);
            let row = table.generations.iter().find(|row| row.product == ID && row.title == marker.proves.word()).unwrap();
            assert!(has(&row.strings.all) || has(&row.strings.any), "{text} proves {}", row.title);
        }
    }

    proptest::proptest! {
        #[test]
        fn no_arguments_panic(words in proptest::collection::vec(proptest::collection::vec(proptest::num::u8::ANY, 0..20), 0..8)) {
            let _ = mode(&words.into_iter().map(Raw).collect::<Vec<_>>());
        }
    }
}
