//! What a unit's files say about the environment of its processes: the unit file, its drop-ins, in systemd's order.
//!
//! The live environment is the truth; these are two more columns beside it, and tell why it is as it is.

use std::collections::BTreeMap;

use super::birth::Group;
use crate::host::{Entry, Fact, Host, Proc, Raw, Unknown, Value, View};

mod parse;

pub use parse::Directive;

/// Which manager runs a unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Manager {
    /// The system's.
    System,
    /// A user's, with her home directory where it is known.
    User {
        /// The user.
        uid: u32,
        /// Her home directory.
        home: Option<String>,
    },
}

/// A file that speaks of a unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnitFile {
    /// Where it is.
    pub path: String,
    /// It is a drop-in; else the unit file itself.
    pub drop_in: bool,
    /// What it says of the environment, or why it could not be read.
    pub directives: Fact<Vec<Directive>>,
}

/// All files of a unit, in the order in which systemd reads them: the unit file, then the drop-ins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Declared {
    /// The unit.
    pub unit: String,
    /// Its files.
    pub files: Vec<UnitFile>,
    /// Files that EnvironmentFile= names, and what they set. A leading `-` allows one to be absent.
    pub environment_files: BTreeMap<String, Fact<Vec<Entry>>>,
    manager: Manager,
    user: Option<String>,
}

/// A value, and the file that gives it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// The file with the assignment.
    pub source: String,
    /// The value, with the specifiers resolved that are known.
    pub value: Value,
}

/// What the files say of one variable.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Columns {
    /// What the unit file alone would give.
    pub unit_file: Option<Setting>,
    /// What the last drop-in that sets it gives.
    pub drop_in: Option<Setting>,
    /// What all files together give.
    pub declared: Option<Setting>,
    /// A file takes the variable away (UnsetEnvironment=), and this is it.
    pub unset_by: Option<String>,
    /// A file hands the manager's own value on (PassEnvironment=), and this is it.
    pub passed_by: Option<String>,
}

/// The unit that a process runs in, and the manager that runs it.
pub fn of_process(process: &Proc<'_>, home: Option<&str>) -> Option<(String, Manager)> {
    let cgroup = process.cgroup().ok()?;
    let group = Group::parse(cgroup.as_bytes());
    let manager = match group.manager {
        Some(uid) => Manager::User { uid, home: home.map(str::to_owned) },
        None => Manager::System,
    };
    Some((group.unit?.to_owned(), manager))
}

impl Manager {
    /// Commands that make a unit's processes start anew with what its files say now.
    pub fn restart(&self, unit: &str) -> Vec<String> {
        let scope = if *self == Manager::System { "" } else { " --user" };
        vec![format!("systemctl{scope} daemon-reload"), format!("systemctl{scope} restart {unit}")]
    }
}

/// Reads the files of a unit.
///
/// # Errors
/// [`Unknown::Absent`] when no file speaks of it.
pub fn declared(host: &Host, unit: &str, manager: &Manager) -> Fact<Declared> {
    if unit.is_empty() || unit.contains('/') || unit.contains('\0') {
        return Err(Unknown::Malformed("not a name of a unit".to_owned()));
    }
    let dirs = search_path(manager);
    let names = names_of(unit);
    let mut files = Vec::new();
    'found: for name in &names[..names.len().min(2)] {
        for dir in &dirs {
            let path = format!("{dir}/{name}");
            let directives = read(host, &path);
            if !matches!(&directives, Err(unknown) if unknown.is_absence()) {
                files.push(UnitFile { path, drop_in: false, directives });
                break 'found;
            }
        }
    }
    for path in drop_ins(host, unit, &dirs) {
        let directives = read(host, &path);
        files.push(UnitFile { path, drop_in: true, directives });
    }
    if files.is_empty() {
        return Err(Unknown::Absent);
    }
    let user = match manager {
        Manager::System => None,
        Manager::User { uid, .. } => host.user_name(*uid),
    };
    let mut declared = Declared { unit: unit.to_owned(), files, environment_files: BTreeMap::new(), manager: manager.clone(), user };
    declared.read_environment_files(host);
    Ok(declared)
}

fn read(host: &Host, path: &str) -> Fact<Vec<Directive>> {
    let document = host.document_masked(View::OURS, path.as_bytes(), |bytes| Ok(parse::unit_file(bytes)), parse::masked)?;
    document.content.map_err(Unknown::Malformed)
}

/// The unit's own name, then its template's: `a@b.service`, `a@.service`.
fn names_of(unit: &str) -> Vec<String> {
    let mut names = vec![unit.to_owned()];
    if let Some((prefix, rest)) = unit.split_once('@')
        && let Some((_, kind)) = rest.rsplit_once('.')
    {
        names.push(format!("{prefix}@.{kind}"));
    }
    names
}

/// The drop-ins, sorted by name; of two with one name that of the more specific and the earlier directory counts.
fn drop_ins(host: &Host, unit: &str, dirs: &[String]) -> Vec<String> {
    let mut names = names_of(unit);
    if let Some((stem, kind)) = unit.rsplit_once('.') {
        // `a-b-c.service` has those of `a-b-.service` and `a-.service` too.
        let dashes = stem.char_indices().rev().filter(|(_, letter)| *letter == '-');
        names.extend(dashes.map(|(at, _)| format!("{}.{kind}", &stem[..=at])).filter(|name| name != unit));
        names.push(kind.to_owned());
    }
    let mut found = BTreeMap::new();
    for name in names {
        for dir in dirs {
            let dir = format!("{dir}/{name}.d");
            for file in host.listing(View::OURS, dir.as_bytes()).unwrap_or_default() {
                if let Some(file) = file.as_str().filter(|file| file.ends_with(".conf")) {
                    found.entry(file.to_owned()).or_insert_with(|| format!("{dir}/{file}"));
                }
            }
        }
    }
    found.into_values().collect()
}

/// Where a manager looks for units, the strongest first (systemd.unit(5)).
fn search_path(manager: &Manager) -> Vec<String> {
    match manager {
        Manager::System => [
            "/etc/systemd/system.control",
            "/run/systemd/system.control",
            "/run/systemd/transient",
            "/run/systemd/generator.early",
            "/etc/systemd/system",
            "/etc/systemd/system.attached",
            "/run/systemd/system",
            "/run/systemd/system.attached",
            "/run/systemd/generator",
            "/usr/local/lib/systemd/system",
            "/usr/lib/systemd/system",
            "/lib/systemd/system",
            "/run/systemd/generator.late",
        ]
        .map(str::to_owned)
        .to_vec(),
        Manager::User { uid, home } => {
            let run = format!("/run/user/{uid}/systemd");
            let own = |below: &str| home.iter().map(move |home| format!("{home}/{below}")).collect::<Vec<_>>();
            let mut dirs = own(".config/systemd/user.control");
            dirs.extend(["user.control", "transient", "generator.early"].map(|name| format!("{run}/{name}")));
            dirs.extend(own(".config/systemd/user"));
            dirs.extend(["/etc/xdg/systemd/user", "/etc/systemd/user"].map(str::to_owned));
            dirs.extend([format!("{run}/user"), "/run/systemd/user".to_owned(), format!("{run}/generator")]);
            dirs.extend(own(".local/share/systemd/user"));
            let shared = ["/usr/local/share", "/usr/share", "/usr/local/lib", "/usr/lib", "/lib"];
            dirs.extend(shared.map(|top| format!("{top}/systemd/user")));
            dirs.push(format!("{run}/generator.late"));
            dirs
        }
    }
}

impl Declared {
    /// Every variable that a file speaks of, in order of first mention.
    pub fn names(&self) -> Vec<Raw> {
        let mut names: Vec<Raw> = Vec::new();
        let mut add = |name: &Raw| {
            if !names.contains(name) {
                names.push(name.clone());
            }
        };
        for file in &self.files {
            for directive in file.directives.iter().flatten() {
                match directive {
                    Directive::Environment(entries) => entries.iter().for_each(|entry| add(&entry.name)),
                    Directive::Pass(passed) => passed.iter().for_each(&mut add),
                    Directive::Unset(unset) => unset.iter().for_each(|raw| add(&Raw::from(name_of(raw)))),
                    Directive::File { .. } => {}
                }
            }
        }
        self.environment_files.values().flatten().flatten().for_each(|entry| add(&entry.name));
        names
    }

    /// What the files say of one variable.
    pub fn columns(&self, name: &str) -> Columns {
        let main: Vec<&UnitFile> = self.files.iter().filter(|file| !file.drop_in).collect();
        let all: Vec<&UnitFile> = self.files.iter().collect();
        let drop_in = self.files.iter().rev().filter(|file| file.drop_in).find_map(|file| self.evaluate(&[file], name));
        let mut columns =
            Columns { unit_file: self.evaluate(&main, name), drop_in, declared: self.evaluate(&all, name), ..Columns::default() };
        for file in &self.files {
            for directive in file.directives.iter().flatten() {
                match directive {
                    Directive::Pass(passed) if passed.is_empty() => columns.passed_by = None,
                    Directive::Pass(passed) if passed.iter().any(|raw| raw.as_bytes() == name.as_bytes()) => {
                        columns.passed_by = Some(file.path.clone());
                    }
                    Directive::Unset(unset) if unset.is_empty() => columns.unset_by = None,
                    Directive::Unset(unset) if unset.iter().any(|raw| self.takes_away(raw, name, columns.declared.as_ref())) => {
                        columns.unset_by = Some(file.path.clone());
                    }
                    _ => {}
                }
            }
        }
        if columns.unset_by.is_some() {
            columns.declared = None;
        }
        columns
    }

    /// `NAME` takes the variable away, `NAME=value` only where it has that value.
    fn takes_away(&self, unset: &Raw, name: &str, declared: Option<&Setting>) -> bool {
        let entry = Entry::parse(unset.as_bytes());
        entry.name.as_bytes() == name.as_bytes() && entry.value.is_none_or(|value| declared.is_some_and(|setting| setting.value == value))
    }

    /// Files named by EnvironmentFile= win over Environment=, whatever the order.
    fn evaluate(&self, files: &[&UnitFile], name: &str) -> Option<Setting> {
        let mut set = None;
        let mut sources: Vec<&str> = Vec::new();
        for file in files {
            for directive in file.directives.iter().flatten() {
                match directive {
                    Directive::Environment(entries) if entries.is_empty() => set = None,
                    Directive::Environment(entries) => {
                        if let Some(entry) = entries.iter().rev().find(|entry| entry.name.as_bytes() == name.as_bytes()) {
                            set = entry.value.as_ref().map(|value| Setting { source: file.path.clone(), value: self.resolved(value) });
                        }
                    }
                    Directive::File { path: None, .. } => sources.clear(),
                    Directive::File { path: Some(path), .. } => sources.push(path),
                    Directive::Pass(_) | Directive::Unset(_) => {}
                }
            }
        }
        let from_file = sources.iter().rev().find_map(|path| {
            let path = self.expand(path.as_bytes());
            let path = String::from_utf8_lossy(&path).into_owned();
            let entries = self.environment_files.get(&path)?.as_ref().ok()?;
            let entry = entries.iter().rev().find(|entry| entry.name.as_bytes() == name.as_bytes())?;
            Some(Setting { source: path, value: entry.value.clone()? })
        });
        from_file.or(set)
    }

    fn read_environment_files(&mut self, host: &Host) {
        let named: Vec<String> = self.files.iter().flat_map(|file| file.directives.iter().flatten()).filter_map(Directive::file).collect();
        for path in named {
            let path = String::from_utf8_lossy(&self.expand(path.as_bytes())).into_owned();
            // A pattern would have to be matched against directories; none is guessed at.
            let content = if path.contains(['*', '?', '[']) || !path.starts_with('/') {
                Err(Unknown::Malformed("a pattern of several files".to_owned()))
            } else {
                let parse = |bytes: &[u8]| Ok(parse::environment_file(bytes));
                let document = host.document_masked(View::OURS, path.as_bytes(), parse, parse::masked_entries);
                document.and_then(|document| document.content.map_err(Unknown::Malformed))
            };
            self.environment_files.insert(path, content);
        }
    }

    fn resolved(&self, value: &Value) -> Value {
        match value {
            Value::Clear(raw) => Value::Clear(Raw(self.expand(raw.as_bytes()))),
            Value::Masked(_) => value.clone(),
        }
    }

    /// Resolves the specifiers that these files are known to use; leaves others as they are.
    fn expand(&self, text: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(text.len());
        let mut rest = text;
        while let Some(at) = memchr::memchr(b'%', rest) {
            out.extend_from_slice(&rest[..at]);
            let letter = rest.get(at + 1).copied();
            match letter.and_then(|letter| self.specifier(letter)) {
                Some(text) => out.extend_from_slice(text.as_bytes()),
                None => out.extend_from_slice(&rest[at..(at + 2).min(rest.len())]),
            }
            rest = rest.get(at + 2..).unwrap_or_default();
        }
        out.extend_from_slice(rest);
        out
    }

    fn specifier(&self, letter: u8) -> Option<String> {
        let stem = self.unit.rsplit_once('.').map_or(self.unit.as_str(), |(stem, _)| stem);
        let (prefix, instance) = stem.split_once('@').unwrap_or((stem, ""));
        let user = match &self.manager {
            Manager::System => None,
            Manager::User { uid, home } => Some((*uid, home.clone())),
        };
        match letter {
            b'%' => Some("%".to_owned()),
            b'n' => Some(self.unit.clone()),
            b'N' => Some(stem.to_owned()),
            b'p' => Some(prefix.to_owned()),
            b'i' => Some(instance.to_owned()),
            b'I' => Some(unescape_name(instance)),
            b'h' => user.map_or_else(|| Some("/root".to_owned()), |(_, home)| home),
            b't' => Some(user.map_or_else(|| "/run".to_owned(), |(uid, _)| format!("/run/user/{uid}"))),
            b'U' => Some(user.map_or(0, |(uid, _)| uid).to_string()),
            b'u' => user.map_or_else(|| Some("root".to_owned()), |_| self.user.clone()),
            _ => None,
        }
    }
}

fn name_of(raw: &Raw) -> &[u8] {
    raw.as_bytes().split(|&byte| byte == b'=').next().unwrap_or_default()
}

/// Reverses systemd's escaping of names: `\x2d` is a dash.
pub(super) fn unescape_name(name: &str) -> String {
    let mut out = Vec::with_capacity(name.len());
    let mut rest = name.as_bytes();
    while let Some((&first, behind)) = rest.split_first() {
        let code = behind.strip_prefix(b"x").and_then(|hex| hex.get(..2)).filter(|hex| hex.iter().all(u8::is_ascii_hexdigit));
        match code.and_then(|hex| u8::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok()) {
            Some(byte) if first == b'\\' => {
                out.push(byte);
                rest = &rest[4..];
            }
            _ => {
                out.push(first);
                rest = behind;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests;
