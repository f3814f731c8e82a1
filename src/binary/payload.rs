//! What a program file carries: a JavaScript bundle, or the mark of the compiler that made it, and where that lies.
//!
//! Bun: seen on OpenCode 1.18.34 and next-16350. Node: the note that a single executable application is made with
//! (`NODE_SEA_BLOB`; seen on one made with Node 20.20.2). Deno: `d3n0l4nd` before the offsets at the end of what `deno compile`
//! writes, as published. Go: the section that `go version` reads (seen on esbuild 0.25.0). Rust: what the compiler leaves in
//! `.comment`, or the paths of its library's sources in constants (seen on this program, and on Debian's ripgrep 13, stripped).

use std::io;
use std::ops::Range;

use schemars::JsonSchema;
use serde::Serialize;

use super::elf::{Section, notes, table};
use super::read::{ReadAt, pieces};
use super::{bun, elf};

/// Kinds of payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A Bun single-file program.
    Bun,
    /// A Node single executable application.
    Node,
    /// A program of `deno compile`.
    Deno,
    /// Compiled by Go.
    Go,
    /// Compiled by Rust.
    Rust,
}

impl Kind {
    /// As a sentence names it.
    pub fn word(self) -> &'static str {
        match self {
            Kind::Bun => "Bun bundle",
            Kind::Node => "Node application",
            Kind::Deno => "Deno program",
            Kind::Go => "Go program",
            Kind::Rust => "Rust program",
        }
    }
}

/// What a program file carries.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Payload {
    /// What it is.
    pub kind: Kind,
    /// Where it lies, or where the mark is that tells of it.
    pub offset: u64,
    /// Its length in bytes.
    pub bytes: u64,
    /// Modules of JavaScript in it; Bun alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub modules: Option<u64>,
    /// What the mark says, such as the compiler's version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// What of it makes no sense.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub doubt: Option<String>,
}

/// What the file carries; none where no mark is found.
///
/// # Errors
/// What the system says.
pub fn payload(file: &dyn ReadAt) -> io::Result<Option<Payload>> {
    let sections = elf::sections(file)?.unwrap_or_default();
    if let Some(bundle) = bun::payload(file, &sections)? {
        let modules = (!bundle.lost).then_some(bundle.scripts.len() as u64);
        let doubt = bundle.lost.then(|| "its trailer makes no sense: where its modules are is not known".to_owned());
        return Ok(Some(Payload { modules, doubt, ..found(Kind::Bun, bundle.range, bundle.user_agent) }));
    }
    if let Some(deno) = deno(file)? {
        return Ok(Some(found(Kind::Deno, deno, None)));
    }
    let Some(table) = table(file)? else { return Ok(None) };
    if let Some(note) = notes(file)?.into_iter().find(|note| note.name == b"NODE_SEA_BLOB") {
        return Ok(Some(found(Kind::Node, note.range, None)));
    }
    if let Some(section) = named(&table, b".go.buildinfo") {
        return Ok(Some(found(Kind::Go, section.range.clone(), None)));
    }
    rust(file, &table)
}

fn found(kind: Kind, range: Range<u64>, detail: Option<String>) -> Payload {
    Payload { kind, offset: range.start, bytes: range.end - range.start, modules: None, detail, doubt: None }
}

fn named<'t>(table: &'t [Section], name: &[u8]) -> Option<&'t Section> {
    table.iter().find(|section| section.name == name)
}

fn deno(file: &dyn ReadAt) -> io::Result<Option<Range<u64>>> {
    const MAGIC: &[u8] = b"d3n0l4nd";
    const TAIL: u64 = 64;
    let start = file.length().saturating_sub(TAIL);
    let tail = file.part(start..file.length())?;
    Ok(memchr::memmem::rfind(&tail, MAGIC).map(|at| start + at as u64..file.length()))
}

fn rust(file: &dyn ReadAt, table: &[Section]) -> io::Result<Option<Payload>> {
    const COMPILER: &[u8] = b"rustc version ";
    /// `/rustc/<commit>/library/…`; Debian's compiler writes `/rustc-1.63.0/library/…`.
    const SOURCES: &[u8] = b"/rustc";
    const LIBRARY: &[u8] = b"/library/";
    const GLANCE: u64 = 4 << 20;
    if let Some(section) = named(table, b".comment") {
        let text = file.part(section.range.start..section.range.end.min(section.range.start + 4096))?;
        if let Some(at) = memchr::memmem::find(&text, COMPILER) {
            let line = text[at..].split(|byte| *byte == 0).next().unwrap_or_default();
            let start = section.range.start + at as u64;
            let detail = Some(String::from_utf8_lossy(line).into_owned());
            return Ok(Some(found(Kind::Rust, start..start + line.len() as u64, detail)));
        }
    }
    let Some(constants) = named(table, b".rodata") else { return Ok(None) };
    let glance = constants.range.start..constants.range.end.min(constants.range.start + GLANCE);
    let (mut at, mut place) = (glance.start, None);
    pieces(file, glance, 0, |piece| {
        // A piece that ends inside of one of these paths is followed by others with whole ones.
        place = memchr::memmem::find_iter(piece, LIBRARY).find_map(|end| {
            let start = memchr::memmem::rfind(&piece[end.saturating_sub(64)..end], SOURCES)? + end.saturating_sub(64);
            let build = &piece[start + SOURCES.len()..end];
            let names_one = build.len() > 1
                && matches!(build[0], b'/' | b'-')
                && build[1..].iter().all(|byte| byte.is_ascii_alphanumeric() || b".-+".contains(byte));
            names_one.then(|| (at + start as u64, String::from_utf8_lossy(&piece[start..end]).into_owned()))
        });
        at += piece.len() as u64;
        place.is_some()
    })?;
    Ok(place.map(|(offset, path)| found(Kind::Rust, offset..offset + path.len() as u64, Some(path))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::binary::bun::made_payload;
    use crate::binary::elf::{made_elf, made_elf_with_notes};

    fn kind(file: &Vec<u8>) -> Option<Kind> {
        payload(file).unwrap().map(|payload| payload.kind)
    }

    #[test]
    fn each_kind_is_told_by_its_mark() {
        let mut bundle = made_elf(&[(".rodata", b"x")]);
        let start = bundle.len() as u64;
        bundle.extend_from_slice(&made_payload("--user-agent=opencode/1.18.34 --", &["a", "b"]));
        let found = payload(&bundle).unwrap().unwrap();
        assert_eq!((found.kind, found.offset, found.bytes), (Kind::Bun, start, bundle.len() as u64 - start));
        assert_eq!((found.modules, found.detail.as_deref()), (Some(2), Some("opencode/1.18.34")));
        assert_eq!(kind(&made_elf(&[(".go.buildinfo", b"\xff Go buildinf:")])), Some(Kind::Go));
        assert_eq!(kind(&made_elf(&[(".comment", b"GCC\0rustc version 1.95.0 (59807616e 2026-04-14)\0")])), Some(Kind::Rust));
        let node = made_elf_with_notes(&[(3, "GNU", b"id"), (0, "NODE_SEA_BLOB", b"blob")]);
        assert_eq!(kind(&node), Some(Kind::Node));
        assert_eq!(kind(&made_elf(&[(".rodata", b"x/usr/src/rustc-1.63.0/library/core/src/str/pattern.rs")])), Some(Kind::Rust));
        let path = format!("x/rustc/{}/library/core/src/option.rs", "5".repeat(40));
        assert_eq!(kind(&made_elf(&[(".rodata", path.as_bytes())])), Some(Kind::Rust));
        assert_eq!(kind(&made_elf(&[(".rodata", b"/rustc/ is a directory of a/library/")])), None);
        assert_eq!(kind(&[&b"\x7fELF\x02\x01 d3n0l4nd"[..], &[0; 32]].concat()), Some(Kind::Deno));
        assert_eq!(kind(&b"#!/bin/sh\n".to_vec()), None);
    }
}
