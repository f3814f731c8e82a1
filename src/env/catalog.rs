//! The variable catalogue: `variables.toml`, a user's rows merged into it, and the rules for names it does not list.

use std::collections::HashMap;
use std::sync::{LazyLock, OnceLock};

use serde::Deserialize;

use super::class::Class;
use crate::origin::Kind;
use crate::redact::{self, Allowance, FingerprintKey, Redactor, ShowPolicy};
use crate::verdict::registry::Topic;

/// The rows that come with the tool.
const BUILT_IN: &str = include_str!("variables.toml");

/// What is known of a variable, or of all whose names begin alike.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Variable {
    /// The name; with a `*` at the end the prefix of names.
    pub name: String,
    /// What it is about.
    pub class: Class,
    /// How its value is judged.
    #[serde(default = "plain")]
    pub kind: Kind,
    /// Which findings its problems belong to; none where its state is no finding.
    #[serde(default)]
    pub topic: Option<Topic>,
    /// Whether the value may be shown.
    #[serde(default)]
    pub shown: bool,
    /// Whether the value is a random identifier by nature and so no secret for looking random.
    #[serde(default)]
    pub id: bool,
    /// The agent whose identity or configuration it is.
    #[serde(default)]
    pub agent: Option<String>,
    /// Whether it marks a running instance of an agent, not a setting.
    #[serde(default)]
    pub instance: bool,
    /// Whether it differs from terminal to terminal by nature.
    #[serde(default)]
    pub per_terminal: bool,
    /// What it means, one sentence.
    pub text: String,
}

fn plain() -> Kind {
    Kind::Plain
}

/// Why a file of variables cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CatalogError {
    /// It is no TOML, or a row has a wrong field.
    #[error("{0}")]
    Syntax(String),
    /// A name that cannot be one.
    #[error("{0:?} is no variable name: it may not be empty, and a `*` may only be its last character")]
    Name(String),
    /// The same name twice in one file.
    #[error("{0:?} is listed twice")]
    Twice(String),
}

/// A catalogue that can be asked.
#[derive(Clone, Debug)]
pub struct Catalog {
    rows: Vec<Variable>,
    exact: HashMap<Vec<u8>, usize>,
    /// Prefix and row, the longest first.
    prefixes: Vec<(Vec<u8>, usize)>,
    /// For names that no row covers: plain, secret by name, a socket by name.
    other: Variable,
    secret: Variable,
    socket: Variable,
}

/// An error of the TOML reader in one line: where, and what.
pub fn toml_error(text: &str, error: &toml::de::Error) -> String {
    let message = error.message().split('\n').map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join(", ");
    match error.span().and_then(|span| text.get(..span.start)) {
        Some(before) => {
            let line = before.rsplit('\n').next().unwrap_or_default();
            format!("line {}, column {}: {message}", before.matches('\n').count() + 1, line.chars().count() + 1)
        }
        None => message,
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    #[serde(default)]
    variable: Vec<Variable>,
}

fn read(text: &str) -> Result<Vec<Variable>, CatalogError> {
    let table: Table = toml::from_str(text).map_err(|error| CatalogError::Syntax(toml_error(text, &error)))?;
    let mut seen = std::collections::HashSet::new();
    for row in &table.variable {
        let stem = row.name.strip_suffix('*').unwrap_or(&row.name);
        if stem.is_empty() || stem.contains(['*', '=', '\0']) {
            return Err(CatalogError::Name(row.name.clone()));
        }
        if !seen.insert(&row.name) {
            return Err(CatalogError::Twice(row.name.clone()));
        }
    }
    Ok(table.variable)
}

impl Catalog {
    /// A catalogue of these rows.
    ///
    /// # Errors
    /// When the text is no catalogue.
    pub fn parse(text: &str) -> Result<Catalog, CatalogError> {
        Ok(Catalog::new(read(text)?))
    }

    fn new(rows: Vec<Variable>) -> Catalog {
        let mut exact = HashMap::with_capacity(rows.len());
        let mut prefixes = Vec::new();
        for (at, row) in rows.iter().enumerate() {
            match row.name.strip_suffix('*') {
                Some(prefix) => prefixes.push((prefix.as_bytes().to_vec(), at)),
                None => drop(exact.insert(row.name.as_bytes().to_vec(), at)),
            }
        }
        prefixes.sort_by_key(|(prefix, _)| std::cmp::Reverse(prefix.len()));
        let unlisted = |class, kind, text: &str| Variable {
            name: "*".to_owned(),
            class,
            kind,
            topic: None,
            shown: false,
            id: false,
            agent: None,
            instance: false,
            per_terminal: false,
            text: text.to_owned(),
        };
        Catalog {
            rows,
            exact,
            prefixes,
            other: unlisted(Class::Other, Kind::Plain, "A variable that the catalogue does not list."),
            secret: unlisted(Class::Secret, Kind::Plain, "A variable that is a secret by its name."),
            socket: Variable {
                topic: Some(Topic::Socket),
                ..unlisted(Class::Other, Kind::UnixSocket, "A socket, by the end of the variable's name.")
            },
        }
    }

    /// These rows with a user's rows on top: a row of the same name is replaced whole.
    ///
    /// # Errors
    /// When the text is no catalogue.
    pub fn merge(&self, text: &str) -> Result<Catalog, CatalogError> {
        let mut rows = self.rows.clone();
        for row in read(text)? {
            match rows.iter_mut().find(|old| old.name == row.name) {
                Some(old) => *old = row,
                None => rows.push(row),
            }
        }
        Ok(Catalog::new(rows))
    }

    /// Every row.
    pub fn all(&self) -> &[Variable] {
        &self.rows
    }

    /// The row that covers a name: exact, else one for secrets by name, else the longest prefix, else one for names that are not listed.
    pub fn lookup(&self, name: &[u8]) -> &Variable {
        if let Some(row) = self.exact.get(name).and_then(|at| self.rows.get(*at)) {
            return row;
        }
        if redact::secret_name(name) {
            return &self.secret;
        }
        let prefix = self.prefixes.iter().find(|(prefix, _)| name.starts_with(prefix));
        match prefix.and_then(|(_, at)| self.rows.get(*at)) {
            Some(row) => row,
            None if names_a_socket(name) => &self.socket,
            None => &self.other,
        }
    }
}

/// Whether a variable that nobody listed names a socket (any program may invent one).
fn names_a_socket(name: &[u8]) -> bool {
    const ENDS: [&[u8]; 7] = [b"_SOCK", b"_SOCKET", b"_SOCKET_PATH", b"_SOCK_PATH", b"_IPC_HOOK", b"_IPC_HOOK_CLI", b"_IPC_HANDLE"];
    ENDS.iter().any(|end| name.len() > end.len() && name.ends_with(end))
}

impl redact::AllowList for Catalog {
    fn allows(&self, name: &[u8], value: &[u8]) -> Option<Allowance> {
        let row = self.lookup(name);
        // A socket by its name alone is shown only as what it claims to be.
        let shown = row.shown || (std::ptr::eq(row, &raw const self.socket) && value.starts_with(b"/"));
        shown.then_some(Allowance { identifier: row.id })
    }
}

impl Variable {
    /// How this value is judged: a socket is told by its name only if the value is an absolute path.
    pub fn kind_of(&self, value: &[u8]) -> Kind {
        if self.name == "*" && !value.starts_with(b"/") { Kind::Plain } else { self.kind }
    }
}

static CHOSEN: OnceLock<Catalog> = OnceLock::new();

static DEFAULT: LazyLock<Catalog> = LazyLock::new(|| {
    // The rows are part of the program and tested: they cannot fail to parse, and an empty catalogue shows nothing.
    Catalog::parse(BUILT_IN).unwrap_or_else(|_| Catalog::new(Vec::new()))
});

/// The catalogue that comes with the tool.
pub fn built_in() -> &'static Catalog {
    &DEFAULT
}

/// Puts a merged catalogue in force for the whole process; the first one wins, and later ones are given back.
///
/// # Errors
/// When one is in force already.
pub fn put_in_force(catalog: Catalog) -> Result<(), Box<Catalog>> {
    CHOSEN.set(catalog).map_err(Box::new)
}

/// The catalogue in force.
pub fn catalog() -> &'static Catalog {
    CHOSEN.get().unwrap_or_else(|| built_in())
}

/// The row that covers a name, in the catalogue in force.
pub fn lookup(name: &[u8]) -> &'static Variable {
    catalog().lookup(name)
}

/// Every row of the catalogue in force.
pub fn all() -> &'static [Variable] {
    catalog().all()
}

/// A redactor whose allow-list is the catalogue in force.
pub fn redactor(key: FingerprintKey, show: ShowPolicy) -> Redactor {
    Redactor::new(key, show, &WhenAsked)
}

/// Reads the catalogue when the first value is judged: a command that shows none starts without it.
struct WhenAsked;

impl redact::AllowList for WhenAsked {
    fn allows(&self, name: &[u8], value: &[u8]) -> Option<Allowance> {
        catalog().allows(name, value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::origin;

    fn row(name: &str) -> &'static Variable {
        built_in().lookup(name.as_bytes())
    }

    #[test]
    fn what_other_values_are_judged_by_is_never_masked_for_its_name() {
        for name in origin::READ_BESIDE {
            assert!(row(name).shown, "{name}");
        }
    }

    #[test]
    fn the_table_is_sound() {
        let rows = read(BUILT_IN).unwrap();
        assert!(rows.len() > 200, "{}", rows.len());
        for row in &rows {
            assert!(row.text.ends_with('.') && row.text.len() > 10, "{row:?}");
            assert!(!row.instance || row.class == Class::AgentMarker, "only markers mark an instance: {row:?}");
            assert!(row.class != Class::AgentMarker || row.instance, "{row:?}");
            assert!(row.agent.is_none() || matches!(row.class, Class::AgentMarker | Class::AgentConfig | Class::Secret), "{row:?}");
            assert!(row.topic.is_none() || row.kind != Kind::Plain, "a value that is not judged has no problem: {row:?}");
            assert!(!row.id || !row.name.ends_with('*'), "an identifier is listed by its whole name: {row:?}");
            if row.shown {
                assert!(!redact::secret_name(row.name.trim_end_matches('*').as_bytes()), "{row:?}");
            }
        }
    }

    #[test]
    fn kinds_that_have_a_topic_of_their_own_are_listed_with_it() {
        for row in built_in().all() {
            let judged_elsewhere = matches!(row.kind, Kind::Directory | Kind::File | Kind::Program | Kind::FileList | Kind::Tty);
            if let Some(topic) = origin::topic(row.kind).filter(|_| !judged_elsewhere) {
                assert_eq!(row.topic, Some(topic), "{row:?}");
            }
        }
        let expected = [
            ("VSCODE_IPC_HOOK_CLI", Kind::UnixSocket, Topic::Editor),
            ("SWAYSOCK", Kind::UnixSocket, Topic::WindowManager),
            ("PULSE_SERVER", Kind::PulseServer, Topic::Audio),
            ("DOCKER_HOST", Kind::SocketAddress, Topic::Containers),
            ("SSH_TTY", Kind::Tty, Topic::Tty),
            ("TMUX", Kind::Tmux, Topic::Multiplexer),
        ];
        for (name, kind, topic) in expected {
            assert_eq!((row(name).kind, row(name).topic), (kind, Some(topic)), "{name}");
        }
    }

    #[test]
    fn class_words_are_the_words_of_the_json() {
        for class in Class::ALL {
            assert_eq!(serde_json::to_value(class).unwrap(), class.word());
        }
    }

    #[test]
    fn the_allow_list_of_the_design_is_shown() {
        let names = "DISPLAY WAYLAND_DISPLAY XAUTHORITY SSH_AUTH_SOCK SSH_CONNECTION SSH_CLIENT SSH_TTY DBUS_SESSION_BUS_ADDRESS \
             XDG_RUNTIME_DIR XDG_SESSION_ID XDG_ANYTHING TMUX TMUX_PANE STY TERM TERM_PROGRAM PATH HOME USER SHELL PWD LANG LC_ALL LC_TIME";
        for name in names.split_whitespace() {
            assert!(row(name).shown, "{name}");
        }
        for name in ["NVM_DIR", "HTTP_PROXY", "GIT_AUTHOR_NAME", "MY_NOTES", "OPENCODE_PASSWORD", "CODEX_ANYTHING", "OPENCODE_CONFIG_DIR"] {
            assert!(!row(name).shown, "{name}");
        }
    }

    #[test]
    fn markers_are_told_from_settings() {
        let markers = [
            ("CLAUDECODE", Some("claude-code")),
            ("CLAUDE_CODE_ENTRYPOINT", Some("claude-code")),
            ("CODEX_SANDBOX", Some("codex")),
            ("OPENCODE", Some("opencode")),
            ("OPENCODE_PID", Some("opencode")),
            ("OPENCODE_TERMINAL", Some("opencode")),
            ("OPENCODE_SESSION_ID", Some("opencode")),
            ("GEMINI_CLI", Some("gemini")),
            ("CURSOR_TRACE_ID", Some("cursor")),
            ("ZEROCLAW_SESSION_ID", Some("zeroclaw")),
            ("AGENT", None),
            ("AI_AGENT", None),
        ];
        for (name, agent) in markers {
            assert!(row(name).instance && row(name).shown, "{name}");
            assert_eq!(row(name).agent.as_deref(), agent, "{name}");
        }
        for name in ["OPENCODE_CONFIG_DIR", "ZEROCLAW_SOCKET", "CODEX_HOME", "CLAUDE_CONFIG_DIR", "AIDER_MODEL", "GOOSE_PROVIDER"] {
            assert!(!row(name).instance, "{name}");
        }
    }

    #[test]
    fn the_longest_prefix_wins_and_an_exact_name_before_it() {
        assert_eq!(row("LC_TERMINAL").class, Class::Terminal);
        assert_eq!(row("LC_PAPER").class, Class::Locale);
        assert_eq!(row("CLAUDE_CODE_MAX_OUTPUT").name, "CLAUDE_CODE_*");
        assert_eq!(row("http_proxy").class, Class::Proxy);
    }

    #[test]
    fn r21_any_variable_that_ends_like_a_socket_and_holds_a_path_is_one() {
        let row = row("SOME_TOOL_SOCK");
        assert_eq!((row.kind_of(b"/run/user/1000/tool.sock"), row.kind_of(b"tool")), (Kind::UnixSocket, Kind::Plain));
        assert_eq!(super::super::lookup(b"SOME_TOOL").kind_of(b"/run/tool.sock"), Kind::Plain);
        for name in ["MY_API_TOKEN", "OPENCODE_API_KEY", "XDG_SESSION_COOKIE"] {
            assert_eq!(built_in().lookup(name.as_bytes()).class, Class::Secret);
        }
    }

    #[test]
    fn a_users_rows_replace_by_name_and_add() {
        let own = "[[variable]]\nname = \"DISPLAY\"\nclass = \"other\"\ntext = \"Mine.\"\n[[variable]]\nname = \"FOO_BAR\"\nclass = \"audio\"\nkind = \"unix_socket\"\nshown = true\ntext = \"Foo.\"\n";
        let merged = built_in().merge(own).unwrap();
        assert_eq!(merged.all().len(), built_in().all().len() + 1);
        assert_eq!((merged.lookup(b"DISPLAY").class, merged.lookup(b"DISPLAY").shown), (Class::Other, false));
        assert_eq!(merged.lookup(b"FOO_BAR").kind, Kind::UnixSocket);
        assert_eq!(merged.lookup(b"TERM").class, Class::Terminal);
    }

    #[test]
    fn a_bad_file_says_why() {
        let error = |text: &str| built_in().merge(text).unwrap_err().to_string();
        assert!(error("variable = 3").starts_with("line 1, column 12: invalid type"), "{}", error("variable = 3"));
        assert!(error("# é\n[[variable]\n").starts_with("line 2, column "), "{}", error("# é\n[[variable]\n"));
        for text in ["variable = 3", "# é\n[[variable]\n", "x = \"", "[[variable]]\nname = 7", "\u{202e}="] {
            assert!(!error(text).contains('\n'), "{:?}", error(text));
        }
        assert!(error("[[variable]]\nname=\"A\"\nclass=\"colour\"\ntext=\"\"").contains("colour"));
        assert!(error("[[variable]]\nname=\"A\"\nclass=\"other\"\ntext=\"\"\nsecert=1").contains("secert"));
        assert_eq!(
            error("[[variable]]\nname=\"A*B\"\nclass=\"other\"\ntext=\"\""),
            "\"A*B\" is no variable name: it may not be empty, and a `*` may only be its last character"
        );
        let twice = "[[variable]]\nname=\"A\"\nclass=\"other\"\ntext=\"\"\n".repeat(2);
        assert_eq!(error(&twice), "\"A\" is listed twice");
    }
}
