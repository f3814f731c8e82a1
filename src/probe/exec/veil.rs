//! What of a recipe may be shown: a person writes passwords into arguments, addresses and bodies.
//!
//! The arguments of the recipes that come with the program are shown as they are. Those of a person's own go by the rules that `show` has
//! for arguments, and what a command printed loses whatever of the recipe is hidden.

use serde_json::Value as Json;

use super::plain;
use super::recipe::Recipe;
use crate::host::snapshot::HIDDEN;
use crate::host::{Raw, Value};
use crate::redact::Redactor;

/// The words that are filled in, and what stands for them while a rule judges.
const WORDS: [(&str, &str); 8] = [
    ("{command}", "command"),
    ("{nonce}", "1"),
    ("{canary}", "1"),
    ("{dir}", "/dir"),
    ("{name}", "name"),
    ("{port}", "1"),
    ("{user}", "user"),
    ("{uid}", "1"),
];

/// Shorter pieces of what is hidden are too common to be looked for in what a command printed.
const PIECE: usize = 4;

/// Decides what is shown of one recipe.
pub struct Veil<'r> {
    redactor: &'r Redactor,
    shipped: bool,
    /// What a text must not hold, the longest first.
    hidden: Vec<String>,
}

impl<'r> Veil<'r> {
    /// For this recipe.
    pub fn of(redactor: &'r Redactor, recipe: &Recipe) -> Veil<'r> {
        let mut veil = Veil { redactor, shipped: recipe.shipped, hidden: Vec::new() };
        if veil.shipped {
            return veil;
        }
        let argvs = [&recipe.check, &recipe.start, &recipe.run, &recipe.control].into_iter();
        let argvs = argvs.chain(&recipe.prepare).chain(&recipe.inject).chain(&recipe.stop);
        let mut secrets: Vec<String> = Vec::new();
        for argv in argvs {
            secrets.extend(argv.iter().zip(veil.may_be_shown(argv)).filter(|(_, shown)| !shown).map(|(word, _)| word.clone()));
        }
        let values = recipe.env.iter().chain(&recipe.run_env).chain(&recipe.expect.set);
        secrets.extend(values.filter(|(name, value)| veil.hides_value(name, value)).map(|(_, value)| value.clone()));
        if let Some(http) = &recipe.http {
            secrets.extend([&http.url, &http.body].into_iter().filter(|text| !veil.shows(text)).cloned());
        }
        let split = |char: char| char.is_whitespace() || "=:@/?&\"'`,;(){}[]<>|$\\".contains(char);
        let pieces = |secret: &String| secret.split(split).map(str::to_owned).chain([secret.clone()]).collect::<Vec<_>>();
        // Of a word that is filled in the person wrote nothing.
        let filled_in = |piece: &String| WORDS.iter().any(|(word, _)| word.trim_matches(['{', '}']) == piece);
        veil.hidden = secrets.iter().flat_map(pieces).filter(|piece| piece.len() >= PIECE && !filled_in(piece)).collect();
        veil.hidden.sort_by_key(|piece| std::cmp::Reverse(piece.len()));
        veil.hidden.dedup();
        veil
    }

    /// A command, as a shell would be given it, with what may not be shown hidden.
    pub fn argv(&self, argv: &[String]) -> String {
        let words = argv.iter().zip(self.may_be_shown(argv)).map(|(word, shown)| if shown { plain(word) } else { HIDDEN.to_owned() });
        words.collect::<Vec<_>>().join(" ")
    }

    /// An address, with its query hidden.
    pub fn url(&self, url: &str) -> String {
        if self.shows(url) {
            return url.to_owned();
        }
        match url.split_once('?') {
            Some((base, _)) if self.shows(base) => format!("{base}?{HIDDEN}"),
            _ => HIDDEN.to_owned(),
        }
    }

    /// A body of JSON, with the values hidden.
    pub fn body(&self, body: &str) -> String {
        if self.shipped {
            return body.to_owned();
        }
        let Ok(mut json) = serde_json::from_str(body) else { return format!("a body of {} bytes", body.len()) };
        self.veil(&mut json);
        json.to_string()
    }

    /// What a command printed, or a person wrote.
    pub fn said(&self, text: &str) -> String {
        let mut text = self.hidden.iter().fold(text.to_owned(), |text, piece| text.replace(piece.as_str(), HIDDEN));
        self.redactor.sentence(&mut text);
        text
    }

    /// A line that a command printed.
    pub fn printed(&self, line: &str) -> String {
        self.redactor.foreign(&self.said(line))
    }

    fn veil(&self, json: &mut Json) {
        match json {
            Json::String(text) if !self.hides_value("", text) => {}
            Json::Null | Json::Bool(_) => {}
            Json::String(_) | Json::Number(_) => *json = HIDDEN.into(),
            Json::Array(items) => items.iter_mut().for_each(|item| self.veil(item)),
            Json::Object(map) => {
                let entries = std::mem::take(map).into_iter().map(|(name, mut value)| {
                    self.veil(&mut value);
                    let name = if self.redactor.name(name.as_bytes()).is_ok() { name } else { HIDDEN.to_owned() };
                    (name, value)
                });
                map.extend(entries);
            }
        }
    }

    fn hides_value(&self, name: &str, value: &str) -> bool {
        !self.shipped && !blank(value) && self.redactor.rule(name.as_bytes(), value.as_bytes()).is_some()
    }

    fn shows(&self, word: &str) -> bool {
        // Not the first of a command, which is a program.
        self.shipped || self.may_be_shown(&[String::new(), word.to_owned()]).last() == Some(&true)
    }

    fn may_be_shown(&self, argv: &[String]) -> Vec<bool> {
        if self.shipped {
            return vec![true; argv.len()];
        }
        let judged = |word: &String| match word.split_once('=') {
            // What is filled in is no secret of the person's.
            Some((name, value)) if !value.is_empty() && blank(value) => name.to_owned() + "=",
            _ => WORDS.iter().fold(word.clone(), |word, (from, to)| word.replace(from, to)),
        };
        let words: Vec<Value> = argv.iter().map(|word| Value::Clear(Raw(judged(word).into_bytes()))).collect();
        self.redactor.arguments(&words).iter().map(|word| matches!(word, Value::Clear(_))).collect()
    }
}

/// Nothing but words that are filled in.
fn blank(text: &str) -> bool {
    WORDS.iter().fold(text.to_owned(), |text, (word, _)| text.replace(word, "")).is_empty()
}
