//! Which product a program is, and the version that it carries: a few kilobytes are read.
//!
//! OpenCode is a Bun single-file program whose build compiles `--user-agent=opencode/1.18.34` in (next-16350:
//! `opencode2/0.0.0-next-16350`; 2.x: `opencode/<channel>/<version>/cli`). 0.1.174 and 0.5.29 carry no such argument.
//!
//! ZeroClaw and zerocode are Rust programs. Every panic location in them names the crate's source path
//! (`zeroclaw-runtime-0.8.7/src/…`, 1,032 times in zeroclaw 0.8.7; `zerocode-0.8.7/src/…`, 45 times in zerocode
//! 0.8.7), from the first kilobytes of `.rodata` on, stripped or not. A single mention proves nothing: this very
//! program has one.

use std::io;
use std::ops::Range;

use memchr::memmem::Finder;

use super::bun::Payload;
use super::read::{ReadAt, holds, pieces};
use super::regions::{Regions, merged};

/// Id of OpenCode.
pub const OPENCODE: &str = "opencode";
/// Id of ZeroClaw, and of zerocode, its client.
pub const ZEROCLAW: &str = "zeroclaw";

/// What a program file is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Product {
    /// Id, as the catalogue of agents has it.
    pub id: &'static str,
    /// The product's front end, where that is a program of its own.
    pub client: bool,
    /// The version that it carries.
    pub version: Option<String>,
}

/// What the program is, if it is OpenCode.
///
/// # Errors
/// What the system says.
pub fn opencode(file: &dyn ReadAt, payload: &Payload) -> io::Result<Option<Product>> {
    let version = match &payload.user_agent {
        Some(agent) => match product_version(agent) {
            Some(version) => Some(version.to_owned()),
            None => return Ok(None),
        },
        // 0.x, or a build of one's own without the flag: its code speaks.
        None if speaks(file, payload)? => None,
        None => return Ok(None),
    };
    Ok(Some(Product { id: OPENCODE, client: false, version }))
}

/// Each of these is in the code of OpenCode's server, from 0.1.174 to 1.18.34 and in next-16350. A program that runs below
/// OpenCode, asks it or plugs into it has its variables, its paths or its events: not all of these.
const SPOKEN: [&[u8]; 4] = [b"opencode.ai/config.json", b"MessageOutputLengthError", b"\"installation.updated\"", b"\"session.idle\""];

fn speaks(file: &dyn ReadAt, payload: &Payload) -> io::Result<bool> {
    let Some(entry) = payload.scripts.first() else { return Ok(false) };
    if !holds(file, entry.clone(), b"OPENCODE_")? {
        return Ok(false);
    }
    let code = Regions::new(file, merged(payload.scripts.clone()));
    for string in SPOKEN {
        if !holds(&code, 0..code.length(), string)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn product_version(user_agent: &str) -> Option<&str> {
    let mut parts = user_agent.split('/');
    if !matches!(parts.next()?, "opencode" | "opencode2") {
        return None;
    }
    match (parts.next(), parts.next(), parts.next()) {
        (Some(version), None, None) | (Some(_), Some(version), _) => Some(version).filter(|version| !version.is_empty()),
        _ => None,
    }
}

/// How far into the constants a program without any other sign of ZeroClaw is searched: the eighth location stands
/// 17 KB into zeroclaw's and 39 KB into zerocode's.
pub const GLANCE: u64 = 512 << 10;

/// As many source paths make a program the crate's own, rather than one that mentions it.
const ENOUGH: usize = 8;

/// Crates and whether a program made of them is the client. A version or nothing follows, then `/src/`.
const CRATES: [(&[u8], bool); 2] = [(b"zeroclaw-runtime", false), (b"zerocode", true)];

/// What the program is, if it is ZeroClaw's or zerocode's.
///
/// # Errors
/// What the system says.
pub fn zeroclaw(file: &dyn ReadAt, constants: Range<u64>) -> io::Result<Option<Product>> {
    /// Longest `zeroclaw-runtime-<version>/src/`.
    const OVERLAP: usize = 64;
    let finders = CRATES.map(|(name, client)| (Finder::new(name), name.len(), client));
    let mut seen = [(0usize, None::<String>), (0, None)];
    pieces(file, constants, OVERLAP, |piece| {
        for ((finder, length, _), (count, version)) in finders.iter().zip(&mut seen) {
            for at in finder.find_iter(piece) {
                let Some(found) = source_of(&piece[at + length..]) else { continue };
                *count += 1;
                if version.is_none() {
                    *version = found.map(str::to_owned);
                }
            }
        }
        seen.iter().any(|(count, _)| *count >= ENOUGH)
    })?;
    let decided = finders.iter().zip(seen).find(|(_, (count, _))| *count >= ENOUGH);
    Ok(decided.map(|((_, _, client), (_, version))| Product { id: ZEROCLAW, client: *client, version }))
}

/// The version in `-0.8.7/src/`; none in `/src/`, as a build from a checkout has it. Nothing where neither follows.
fn source_of(rest: &[u8]) -> Option<Option<&str>> {
    const SRC: &[u8] = b"/src/";
    if rest.starts_with(SRC) {
        return Some(None);
    }
    let rest = rest.strip_prefix(b"-")?;
    let end = rest.iter().take(40).position(|byte| *byte == b'/')?;
    let version = std::str::from_utf8(&rest[..end]).ok()?;
    (rest[end..].starts_with(SRC) && version.starts_with(|c: char| c.is_ascii_digit())).then_some(Some(version))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(text: &str) -> Option<(bool, Option<String>)> {
        let file = text.as_bytes().to_vec();
        zeroclaw(&file, 0..file.length()).unwrap().map(|facts| (facts.client, facts.version))
    }

    #[test]
    fn a_program_is_known_by_the_source_paths_of_its_panics() {
        let location = "/root/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/zeroclaw-runtime-0.8.7/src/rpc/tui_identity.rs\0";
        assert_eq!(facts(&location.repeat(8)), Some((false, Some("0.8.7".to_owned()))));
        assert_eq!(facts(&"/root/.cargo/registry/src/x/zerocode-0.8.7/src/wire.rs".repeat(9)), Some((true, Some("0.8.7".to_owned()))));
        assert_eq!(facts(&"/home/u/zeroclaw/crates/zeroclaw-runtime/src/lib.rs".repeat(8)), Some((false, None)));
    }

    #[test]
    fn a_program_that_mentions_it_is_another_one() {
        assert_eq!(facts("zeroclaw-runtime-0.8.7/src/ zeroclaw-runtime/src/ zerocode zeroclaw"), None);
        assert_eq!(facts(&"zeroclaw-runtime is a crate, zerocode a program; ".repeat(100)), None);
        assert_eq!(facts(""), None);
    }

    fn of_bundle(arguments: &str, modules: &[&str]) -> Option<Product> {
        let file = crate::binary::bun::made_payload(arguments, modules);
        let payload = crate::binary::bun::payload(&file, &Default::default()).unwrap().unwrap();
        opencode(&file, &payload).unwrap()
    }

    #[test]
    fn a_program_without_the_argument_is_known_by_its_code_and_one_that_runs_below_it_is_another() {
        let rest = "\"https://opencode.ai/config.json\";n(\"MessageOutputLengthError\");\"installation.updated\"";
        let found = of_bundle("--", &["process.env.OPENCODE_CONFIG", rest, "\"session.idle\""]).unwrap();
        assert_eq!((found.id, found.version), (OPENCODE, None));
        for foreign in [
            "if(process.env.OPENCODE_PID)console.log(1);fetch(u+\"/global/health\")",
            "process.env.OPENCODE_FOO",
            "process.env.OPENCODE_CONFIG;x={$schema:\"https://opencode.ai/config.json\"};on(\"session.idle\")",
        ] {
            assert_eq!(of_bundle("--", &[foreign]), None, "{foreign}");
        }
        assert_eq!(of_bundle("--user-agent=other/1.0", &["process.env.OPENCODE_CONFIG", rest, "\"session.idle\""]), None);
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..300)) {
            let _ = source_of(&bytes);
            let _ = zeroclaw(&bytes, 0..bytes.len() as u64);
        }
    }
}
