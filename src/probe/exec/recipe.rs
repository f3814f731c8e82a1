//! What a person writes of a host: how to start it, how to inject, how to make it run a command, what to expect.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::host::snapshot::HIDDEN;
use crate::report::Rows;

/// The recipes that are part of the program.
const BUILT_IN: &str = include_str!("recipes.toml");

/// The keys of a recipe, for the man page.
pub const KEYS: [(&str, &str); 19] = [
    ("id, text", "A stable id, and what is claimed in one sentence."),
    ("documented", "What the host's documents say, where they say something."),
    ("needs", "Programs that must be in PATH; without one the recipe is not supported here."),
    ("check", "A command that must succeed; otherwise the recipe is not supported here."),
    ("env", "Variables of every command of the recipe, beside the fixed ones."),
    ("files", "Files that are written first, below the private directory: path = text."),
    ("prepare", "Commands before the run, each to its end."),
    ("start", "A command that stays, and is ended at the end."),
    ("inject", "Commands that inject: before the run, to their end, and not before the control."),
    ("http", "A request that injects: before the run, and not before the control; to loopback alone: method, url, body (JSON)."),
    ("run", "The command that makes the host run {command}."),
    ("run_env", "Variables of that command alone, which the control has not."),
    (
        "stdin",
        "What that command reads; the control without the lines that hold {nonce}, {canary}, or a name of set with its value, and so it is with files.",
    ),
    (
        "control",
        "The run without the injection, in a private directory of its own: what set and added name must not be there as expected. Without it the run's own words, for an injection by run_env, stdin, files, inject or http.",
    ),
    ("stop", "Commands at the end, whatever happened."),
    ("repeat", "So many runs, each judged."),
    ("abstract", "The read-back's socket has an abstract name: for another account, or a private /tmp."),
    ("in_band", "Read from what the command prints: set or unset, length, and equality with what was injected."),
    (
        "expect",
        "set = {NAME = VALUE}, present = [NAME], absent = [NAME], only = [NAME] (nothing beside these), added = [NAME] (what the shell itself makes of it).",
    ),
];

/// A host that is described in a few lines; the keys are told in [`KEYS`].
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Recipe {
    /// Stable id.
    pub id: String,
    /// What is claimed.
    pub text: String,
    /// What the host's documents say.
    pub documented: Option<String>,
    /// Programs that must be in PATH.
    pub needs: Vec<String>,
    /// A command that must succeed.
    pub check: Vec<String>,
    /// Variables of every command.
    pub env: BTreeMap<String, String>,
    /// Files that are written first, below the private directory.
    pub files: BTreeMap<String, String>,
    /// Commands before the run.
    pub prepare: Vec<Vec<String>>,
    /// A command that stays.
    pub start: Vec<String>,
    /// What makes the host run the command.
    pub run: Vec<String>,
    /// Variables of that command alone.
    pub run_env: BTreeMap<String, String>,
    /// What it reads.
    pub stdin: Option<String>,
    /// Commands that inject.
    pub inject: Vec<Vec<String>>,
    /// A request before the run.
    pub http: Option<Injection>,
    /// The same without the injection.
    pub control: Vec<String>,
    /// Commands at the end.
    pub stop: Vec<Vec<String>>,
    /// So many runs.
    pub repeat: Option<u32>,
    /// The read-back's socket has an abstract name.
    #[serde(rename = "abstract")]
    pub abstract_socket: bool,
    /// Read in band, from what the command prints, and not out of band.
    pub in_band: bool,
    /// What must be seen.
    pub expect: Expect,
    /// It came with the program: nothing in it is a secret of anybody's.
    #[serde(skip)]
    pub shipped: bool,
}

/// A request that injects.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Injection {
    /// `PUT`, `POST`.
    pub method: String,
    /// On loopback.
    pub url: String,
    /// JSON.
    pub body: String,
}

/// What must be seen.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Expect {
    /// Names with their values.
    pub set: BTreeMap<String, String>,
    /// Names that must be there.
    pub present: Vec<String>,
    /// Names that must not be there.
    pub absent: Vec<String>,
    /// Nothing beside these, and what the shell itself adds; none where anything may be.
    pub only: Option<Vec<String>>,
    /// Names that the shell itself must add.
    pub added: Vec<String>,
}

/// The recipes that are known.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Recipes {
    /// In the order in which they are read: the program's, the user's, a file's.
    pub recipes: Vec<Listed>,
}

/// A recipe in a list.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Listed {
    /// Its id.
    pub id: String,
    /// What is claimed.
    pub text: String,
    /// Programs that must be in PATH.
    pub needs: Vec<String>,
}

impl Rows for Recipes {
    type Row = Listed;
    const FIELD: Option<&'static str> = Some("recipes");

    fn split(mut self) -> (Option<Self>, Vec<Listed>) {
        let rows = std::mem::take(&mut self.recipes);
        (Some(self), rows)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    recipe: Vec<Recipe>,
}

/// Why a file of recipes cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecipeError {
    /// It is no such file.
    #[error("{0}")]
    Toml(String),
    /// A recipe lacks what makes it one.
    #[error("recipe {0:?}: {1}")]
    Recipe(String, &'static str),
}

/// The recipes that are part of the program.
pub fn built_in() -> Vec<Recipe> {
    let mut recipes = parse(BUILT_IN).unwrap_or_default();
    recipes.iter_mut().for_each(|recipe| recipe.shipped = true);
    recipes
}

/// Parses a file of recipes.
///
/// # Errors
/// When it is none, or a recipe has no id, no run or nothing to expect.
pub fn parse(text: &str) -> Result<Vec<Recipe>, RecipeError> {
    let file: File = toml::from_str(text).map_err(|error| RecipeError::Toml(without_texts(error.message())))?;
    file.recipe.iter().try_for_each(sound)?;
    Ok(file.recipe)
}

/// A complaint about a file without the texts that stand in it: a command in the wrong place may hold a password.
fn without_texts(message: &str) -> String {
    match (message.find('"'), message.rfind('"')) {
        (Some(first), Some(last)) if first < last => format!("{}{HIDDEN}{}", &message[..first], &message[last + 1..]),
        _ => message.to_owned(),
    }
}

/// That a recipe can be run and judged.
///
/// # Errors
/// When it cannot.
pub fn sound(recipe: &Recipe) -> Result<(), RecipeError> {
    let faulty = |why| Err(RecipeError::Recipe(recipe.id.clone(), why));
    let expect = &recipe.expect;
    let nothing =
        expect.set.is_empty() && expect.present.is_empty() && expect.absent.is_empty() && expect.only.is_none() && expect.added.is_empty();
    let speaks = |words: &[String]| words.iter().any(|word| word.contains("{command}"));
    match recipe {
        _ if recipe.id.is_empty() => faulty("it has no id"),
        _ if recipe.run.is_empty() => faulty("it has no run"),
        _ if !speaks(&recipe.run) && !recipe.stdin.as_deref().is_some_and(|text| text.contains("{command}")) => {
            faulty("neither run nor stdin has the word {command}")
        }
        _ if nothing => faulty("it expects nothing"),
        _ if recipe.in_band && recipe.needs_whole_block() => faulty("in band, nothing can be told of only and added"),
        // A path that leads out of the private directory would be written to.
        _ if recipe.files.keys().any(|path| path.starts_with('/') || path.split('/').any(|part| part == "..")) => {
            faulty("a file is not below the private directory")
        }
        _ => Ok(()),
    }
}

impl Recipe {
    /// What a round without the injection has of a text: the lines without what only this probe could have put there, and
    /// without those that name a variable of `set` with its value. A line that runs the command stays.
    pub fn without_injection(&self, text: &str) -> String {
        let assigns =
            |line: &str| self.expect.set.iter().any(|(name, value)| line.contains(name.as_str()) && line.contains(value.as_str()));
        let injects = |line: &str| line.contains("{nonce}") || line.contains("{canary}") || !line.contains("{command}") && assigns(line);
        text.split_inclusive('\n').filter(|line| !injects(line)).collect()
    }

    /// What it expects is seen in the shell's whole block alone.
    pub fn needs_whole_block(&self) -> bool {
        self.expect.only.is_some() || !self.expect.added.is_empty()
    }

    /// The words of the control: its own, else the run's; none where nothing that is expected was injected.
    pub fn controlled(&self) -> Option<&Vec<String>> {
        match self.control.is_empty() {
            false => Some(&self.control),
            true if self.expect.set.is_empty() && self.expect.added.is_empty() => None,
            true => Some(&self.run),
        }
    }
}

/// `user` on top of `base`, by id.
pub fn merged(mut base: Vec<Recipe>, user: Vec<Recipe>) -> Vec<Recipe> {
    for recipe in user {
        match base.iter_mut().find(|known| known.id == recipe.id) {
            Some(known) => *known = recipe,
            None => base.push(recipe),
        }
    }
    base
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_recipes_of_the_program_are_sound() {
        let ids: Vec<_> = parse(BUILT_IN).unwrap().into_iter().map(|recipe| recipe.id).collect();
        let all = [
            "env-i",
            "login-shell",
            "tmux-e",
            "tmux-update-environment",
            "systemd-run",
            "systemd-import-environment",
            "sudo",
            "su-login",
            "ssh-sendenv",
        ];
        assert_eq!(ids, all);
    }

    #[test]
    fn what_cannot_be_judged_is_refused() {
        let fault = |text: &str| parse(text).unwrap_err().to_string();
        assert_eq!(fault("[[recipe]]\nrun = [\"{command}\"]"), "recipe \"\": it has no id");
        assert_eq!(fault("[[recipe]]\nid = \"a\"\nrun = [\"sh\"]"), "recipe \"a\": neither run nor stdin has the word {command}");
        assert_eq!(fault("[[recipe]]\nid = \"a\"\nrun = [\"{command}\"]"), "recipe \"a\": it expects nothing");
        let out = "[[recipe]]\nid = \"a\"\nrun = [\"{command}\"]\nfiles = { \"../x\" = \"\" }\nexpect.absent = [\"A\"]";
        assert_eq!(fault(out), "recipe \"a\": a file is not below the private directory");
        assert!(fault("[[recipe]]\nidd = \"a\"").contains("unknown field"));
    }

    proptest::proptest! {
        #[test]
        fn no_text_panics(text in ".{0,200}") {
            let _ = parse(&text);
        }
    }
}
