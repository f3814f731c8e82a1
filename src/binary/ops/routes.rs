//! Routes of Hono, as OpenCode had them before 1.4 (1.2.1, 1.2.27 and 1.3.2, none of them minified):
//!
//! ```text
//! SessionRoutes = lazy2(() => new Hono2().get("/status", describeRoute({ operationId: "session.status", … }), …)…);
//! const app2 = new Hono2;
//! return app2.route("/global", GlobalRoutes()).put("/auth/:providerID", describeRoute({ operationId: "auth.set", … }), …)
//!   .get("/doc", openAPIRouteHandler(app2, { documentation: … })).route("/session", SessionRoutes())…;
//! ```
//!
//! A path begins where the chain that serves the contract mounts its own. What no such chain leads to has a path that is not known.

use std::collections::HashMap;

use super::expression::{Source, is_path, is_word};
use super::{Operation, Unresolved};

/// Longest chain that is followed, in bytes; that of 1.2.27's sessions has 24 KB.
const CHAIN: usize = 1 << 20;
/// How far behind a chain's own variable it is used.
const NEAR: usize = 4096;
/// How deep chains may be mounted in chains.
const DEPTH: usize = 8;
/// As many operations are told; a chain that is mounted many times, many times over, would make more.
const MOST: usize = 16_384;

/// A chain of calls on a new Hono.
struct Chain<'t> {
    name: Option<&'t [u8]>,
    /// It serves a contract of itself.
    root: bool,
    routes: Vec<Route>,
    /// Where which other chains are mounted; none where that is not made out.
    mounts: Vec<(String, &'t [u8])>,
}

struct Route {
    at: usize,
    id: String,
    method: &'static str,
    path: String,
}

impl<'t> Source<'t> {
    /// The operations of chains, and those whose path is not made out.
    pub(super) fn routes(&self, base: u64) -> (Vec<Operation>, Vec<Unresolved>) {
        let chains: Vec<Chain<'t>> = memchr::memmem::find_iter(self.text, b"new Hono").filter_map(|at| self.chain(at)).collect();
        let mut names: HashMap<&[u8], Option<usize>> = HashMap::new();
        for (index, chain) in chains.iter().enumerate() {
            if let Some(name) = chain.name {
                // Two of one name: which one is meant is not known.
                names.entry(name).and_modify(|known| *known = None).or_insert(Some(index));
            }
        }
        let mut found = Vec::new();
        let mut led_to = vec![false; chains.len()];
        let mut open: Vec<(usize, String, usize)> =
            chains.iter().enumerate().filter(|(_, chain)| chain.root).map(|(index, _)| (index, String::new(), DEPTH)).collect();
        while let Some((index, prefix, depth)) = open.pop() {
            let Some(chain) = chains.get(index).filter(|_| found.len() < MOST) else { break };
            led_to[index] = true;
            found.extend(chain.routes.iter().map(|route| Operation {
                id: route.id.clone(),
                identifier: None,
                method: Some(route.method.to_owned()),
                path: joined(&prefix, &route.path),
                offset: base + route.at as u64,
            }));
            let Some(depth) = depth.checked_sub(1) else { continue };
            for (path, name) in &chain.mounts {
                if let Some(Some(mounted)) = names.get(name)
                    && open.len() < MOST
                {
                    open.push((*mounted, joined(&prefix, path), depth));
                }
            }
        }
        let others = chains.iter().zip(&led_to).filter(|(_, led_to)| !**led_to).flat_map(|(chain, _)| &chain.routes);
        let unresolved = others.map(|route| Unresolved {
            offset: base + route.at as u64,
            id: route.id.clone(),
            method: Some(route.method.to_owned()),
            path: Some(route.path.clone()),
        });
        (found, unresolved.collect())
    }

    /// The chain of the `new` at `at`.
    fn chain(&self, at: usize) -> Option<Chain<'t>> {
        let class = self.word_at(at + 4)?;
        if !class.text.strip_prefix(b"Hono")?.iter().all(u8::is_ascii_digit)
            || at.checked_sub(1).is_some_and(|before| is_word(self.text[before]))
        {
            return None;
        }
        let mut chain = Chain { name: self.named(at), root: false, routes: Vec::new(), mounts: Vec::new() };
        let mut end = class.at + class.text.len();
        if self.byte(end) == Some(b'(') {
            end = self.closed_code(end, end + CHAIN)?;
        }
        let mut next = self.skip_spaces(end);
        if self.byte(next) == Some(b';') {
            let variable = [chain.name?, b"."].concat();
            let near = &self.text[next..self.text.len().min(next + NEAR)];
            let used = memchr::memmem::find_iter(near, &variable).map(|found| next + found).find(|found| !is_word(self.text[found - 1]))?;
            next = used + variable.len() - 1;
        }
        let limit = self.text.len().min(at + CHAIN);
        while self.byte(next) == Some(b'.') {
            let Some(word) = self.word_at(next + 1) else { break };
            let open = word.at + word.text.len();
            if self.byte(open) != Some(b'(') {
                break;
            }
            let Some(end) = self.closed_code(open, limit) else { break };
            self.called(&mut chain, word.text, word.at, open);
            next = self.skip_spaces(end);
        }
        Some(chain)
    }

    /// One call of a chain, with its parenthesis at `open`.
    fn called(&self, chain: &mut Chain<'t>, name: &[u8], at: usize, open: usize) {
        let first = self.skip_spaces(open + 1);
        let Some((path, after)) = self.string(first).or_else(|| self.plain_template(first)) else { return };
        let comma = self.skip_spaces(after);
        if self.byte(comma) != Some(b',') || !is_path(&path) {
            return;
        }
        let Some(word) = self.word_at(self.skip_spaces(comma + 1)) else { return };
        let next = word.at + word.text.len();
        if name == b"route" {
            // `Routes()`, `Routes`
            let end = if self.text[next..].starts_with(b"()") { next + 2 } else { next };
            if self.byte(self.skip_spaces(end)) == Some(b')') {
                chain.mounts.push((path.into_owned(), word.text));
            }
            return;
        }
        let Some((_, method)) = super::VERBS.iter().find(|(call, _)| &call.as_bytes()[1..call.len() - 1] == name) else { return };
        if self.byte(next) != Some(b'(') {
            return;
        }
        let inside = self.skip_spaces(next + 1);
        if self.byte(inside) != Some(b'{') {
            let serves = self.text.get(next..self.text.len().min(next + 256)).unwrap_or_default();
            chain.root |= memchr::memmem::find(serves, b"documentation:").is_some();
            return;
        }
        let id = self.member(inside, b"operationId").and_then(|(expression, place)| self.value(&expression, place, DEPTH));
        if let Some(id) = id {
            chain.routes.push(Route { at, id, method, path: path.into_owned() });
        }
    }

    /// What the `new` at `at` is given to: `Name = lazy(() => new …`, `const name = new …`, `function Name() { return new …`.
    fn named(&self, at: usize) -> Option<&'t [u8]> {
        let mut end = self.spaces_before(at);
        if self.text[..end].ends_with(b"return") {
            let brace = self.spaces_before(end - 6);
            let list = self.text[..brace].strip_suffix(b"{").map(|_| self.spaces_before(brace - 1))?;
            let name = self.word_before(self.text[..list].strip_suffix(b"()")?.len())?;
            return self.text[..self.spaces_before(name.at)].ends_with(b"function").then_some(name.text);
        }
        if self.text[..end].ends_with(b"=>") {
            end = self.spaces_before(end - 2);
            end = self.spaces_before(self.text[..end].strip_suffix(b"()")?.len());
            if self.text[..end].ends_with(b"(") {
                end = self.spaces_before(self.word_before(end - 1)?.at);
            }
        }
        let equals = self.text[..end].strip_suffix(b"=")?.len();
        let name = self.word_before(self.spaces_before(equals))?;
        (!self.text[..name.at].ends_with(b".")).then_some(name.text)
    }

    /// Behind the bracket that closes the one at `open`, past strings, templates, comments and expressions like `/[(]/`.
    fn closed_code(&self, open: usize, limit: usize) -> Option<usize> {
        let limit = limit.min(self.text.len());
        if !self.budget.spend(64) {
            return None;
        }
        // What is open: a bracket, or a template with something put in.
        let (mut stack, mut at) = (Vec::new(), open);
        let mut before = b'(';
        while at < limit {
            let byte = self.text[at];
            match byte {
                b'(' | b'[' | b'{' => stack.push(byte),
                b')' | b']' | b'}' => {
                    let template = stack.pop()? == b'`';
                    if stack.is_empty() {
                        self.budget.spend(at - open);
                        return Some(at + 1);
                    }
                    if template {
                        at = self.template_part(at + 1, limit, &mut stack)?;
                        before = b'`';
                        continue;
                    }
                }
                b'"' | b'\'' => {
                    at += 1;
                    while at < limit && self.text[at] != byte {
                        at += if self.text[at] == b'\\' { 2 } else { 1 };
                    }
                }
                b'`' => {
                    at = self.template_part(at + 1, limit, &mut stack)?;
                    before = b'`';
                    continue;
                }
                b'/' if self.byte(at + 1) == Some(b'/') => {
                    at += memchr::memchr(b'\n', &self.text[at..limit])?;
                    continue;
                }
                b'/' if self.byte(at + 1) == Some(b'*') => {
                    at += 2 + memchr::memmem::find(&self.text[at + 2..limit], b"*/")? + 2;
                    continue;
                }
                b'/' if b"(,=:[!&|?{};+-*<>~^%\n".contains(&before) => {
                    let mut class = false;
                    at += 1;
                    while at < limit && (class || self.text[at] != b'/') {
                        match self.text[at] {
                            b'\\' => at += 1,
                            b'[' => class = true,
                            b']' => class = false,
                            b'\n' => return None,
                            _ => {}
                        }
                        at += 1;
                    }
                }
                _ => {}
            }
            if !byte.is_ascii_whitespace() {
                before = byte;
            }
            at += 1;
        }
        self.budget.spend(limit.saturating_sub(open));
        None
    }

    /// Behind the end of a template's text, or of what begins to be put in.
    fn template_part(&self, mut at: usize, limit: usize, stack: &mut Vec<u8>) -> Option<usize> {
        while at < limit {
            match self.text[at] {
                b'`' => return Some(at + 1),
                b'\\' => at += 1,
                b'$' if self.byte(at + 1) == Some(b'{') => {
                    stack.push(b'`');
                    return Some(at + 2);
                }
                _ => {}
            }
            at += 1;
        }
        None
    }
}

/// A path below another, as Hono joins them: `/session` and `/` are `/session`.
fn joined(prefix: &str, path: &str) -> String {
    let prefix = prefix.strip_suffix('/').unwrap_or(prefix);
    match path {
        "/" if !prefix.is_empty() => prefix.to_owned(),
        _ => format!("{prefix}{path}"),
    }
}
