//! Where the programs and databases of an account may be: directories are listed, and of files npm's settings alone are read.

use super::npm;
use crate::agent::stores::{self, Named};
use crate::binary::identify::Identified;
use crate::binary::product::OPENCODE;
use crate::host::{Environ, FileKind, Host, Raw, View};

/// Whose files are looked for.
pub(super) struct Account<'e> {
    pub environ: &'e Environ,
    pub view: View,
}

impl Account<'_> {
    pub(super) fn home(&self) -> Option<&[u8]> {
        self.environ.bytes("HOME").filter(|home| home.starts_with(b"/"))
    }

    /// The database that this program opens when the account starts it; none where it is in memory, or in another namespace.
    ///
    /// A program that does not know `OPENCODE_DB` opens the one in its directory all the same (1.2.1 and 1.2.27 do, seen).
    pub(super) fn opens(&self, identified: &Identified) -> Option<Raw> {
        if self.view.mount.is_some() {
            return None;
        }
        let kept = stores::opencode(self.environ)?;
        match kept.named {
            Named::Memory if identified.has(BY_VARIABLE) => None,
            Named::At(path) if identified.has(BY_VARIABLE) => Some(path),
            _ => {
                let one_for_all = matches!(self.environ.bytes("OPENCODE_DISABLE_CHANNEL_DB"), Some(b"1" | b"true"));
                let name = database_of(identified, one_for_all)?;
                Some(Raw([kept.dir.as_bytes(), b"/", name.as_bytes()].concat()))
            }
        }
    }
}

/// The feature of programs that open what `OPENCODE_DB` names.
pub(super) const BY_VARIABLE: &str = "database.path";

/// The name of the database that a program would open in its user's directory, where nothing in the environment says another.
///
/// A channel that is not released has its own: next-16350 opens `opencode-next.db` (seen), 1.18.34 `opencode.db` (seen).
pub fn database_of(identified: &Identified, one_for_all: bool) -> Option<String> {
    if identified.product.as_deref() != Some(OPENCODE) {
        return None;
    }
    let channel = identified.version_string.as_deref().and_then(|version| version.strip_prefix("0.0.0-")?.split('-').next());
    Some(match channel {
        Some(channel) if !one_for_all && identified.has("database.channel") && !matches!(channel, "latest" | "beta" | "prod") => {
            format!("opencode-{channel}.db")
        }
        _ => "opencode.db".to_owned(),
    })
}

/// Directories below a home in which programs are put.
const BELOW_HOME: [&[u8]; 3] = [b".opencode/bin", b".cargo/bin", b".local/bin"];

/// Where programs of this account may be, each with how it is found there.
pub(super) fn candidates(host: &Host, account: &Account<'_>) -> Vec<(Vec<u8>, &'static str)> {
    const NAMES: [&[u8]; 4] = [b"opencode", b"opencode2", b"zeroclaw", b"zerocode"];
    let view = account.view;
    let path = account.environ.bytes("PATH").unwrap_or_default();
    let dirs: Vec<&[u8]> = path.split(|byte| *byte == b':').filter(|dir| dir.starts_with(b"/")).collect();
    let mut found: Vec<(Vec<u8>, &'static str)> = Vec::new();
    let join = |dir: &[u8], name: &[u8]| [dir, b"/", name].concat();
    for dir in &dirs {
        found.extend(NAMES.iter().map(|name| (join(dir, name), "path")));
    }
    if let Some(home) = account.home() {
        for below in BELOW_HOME {
            found.extend(NAMES.iter().map(|name| (join(&join(home, below), name), "home")));
        }
    }
    let mut homes = npm::folders(host, account, &dirs);
    homes.sort_unstable();
    homes.dedup();
    for modules in homes {
        let nested = join(&modules, b"opencode-ai/node_modules");
        for dir in [modules, nested] {
            let packages = |dir: &[u8], start: &[u8]| {
                let names = host.listing(view, dir).unwrap_or_default();
                names
                    .into_iter()
                    .filter(|name| name.as_bytes().starts_with(start))
                    .map(|name| join(dir, name.as_bytes()))
                    .collect::<Vec<_>>()
            };
            for package in packages(&dir, b"opencode").into_iter().chain(packages(&join(&dir, b"@opencode-ai"), b"cli")) {
                found.extend(NAMES[..2].iter().map(|name| (join(&join(&package, b"bin"), name), "npm")));
            }
        }
    }
    found.extend(renamed(host, account, &dirs));
    found.retain(|(path, _)| matches!(host.path(view, path), Ok(fact) if fact.kind == FileKind::File));
    found
}

/// Programs of any name that are large (the smallest OpenCode seen, 0.1.174, has 121 MB): what they are, their code says.
fn renamed(host: &Host, account: &Account<'_>, dirs: &[&[u8]]) -> Vec<(Vec<u8>, &'static str)> {
    const LARGE: u64 = 20 << 20;
    /// As many in all are looked into.
    const MOST: usize = 64;
    let view = account.view;
    let home = account.home().map(|home| BELOW_HOME.map(|below| [home, b"/", below].concat()));
    let places = dirs.iter().map(|dir| (dir.to_vec(), "path")).chain(home.into_iter().flatten().map(|dir| (dir, "home")));
    let large = places.flat_map(|(dir, how)| {
        let names = host.programs(view, &dir).map(|names| names.to_vec()).unwrap_or_default();
        names.into_iter().map(move |name| ([&dir[..], b"/", name.as_bytes()].concat(), how))
    });
    large
        .filter(|(path, _)| host.path(view, path).is_ok_and(|fact| fact.kind == FileKind::File && fact.bytes >= LARGE))
        .take(MOST)
        .collect()
}

/// The databases of OpenCode that this account has.
pub(super) fn databases_of(host: &Host, account: &Account<'_>) -> Vec<Raw> {
    // A database that only another namespace sees has no path here.
    if account.view.mount.is_some() {
        return Vec::new();
    }
    let Some(kept) = stores::opencode(account.environ) else { return Vec::new() };
    let dir = kept.dir.as_bytes();
    let names = host.listing(account.view, dir).unwrap_or_default();
    let is_one = |name: &Raw| name.as_bytes().starts_with(b"opencode") && name.as_bytes().ends_with(b".db");
    let named = match kept.named {
        Named::At(path) => Some(path),
        Named::Nothing | Named::Memory => None,
    };
    names.into_iter().filter(is_one).map(|name| Raw([dir, b"/", name.as_bytes()].concat())).chain(named).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::binary::identify::Feature;

    fn known(version: &str, features: &[&str]) -> Identified {
        let feature = |id: &&str| Feature { id: (*id).to_owned(), title: String::new(), present: true, evidence: Vec::new() };
        Identified {
            product: Some(OPENCODE.to_owned()),
            version_string: Some(version.to_owned()),
            features: features.iter().map(feature).collect(),
            ..Identified::default()
        }
    }

    #[test]
    fn the_database_follows_from_the_channel_and_the_variables() {
        let all = ["database.channel", BY_VARIABLE];
        let opens = |environ: &[u8], version, features: &[&str]| {
            let environ = Environ::parse(&[b"HOME=/h\0", environ].concat());
            Account { environ: &environ, view: View::OURS }.opens(&known(version, features)).map(|path| path.lossy().into_owned())
        };
        for (environ, version, features, expected) in [
            (&b""[..], "1.18.34", &all[..], Some("/h/.local/share/opencode/opencode.db")),
            (b"", "0.0.0-next-16350", &all, Some("/h/.local/share/opencode/opencode-next.db")),
            (b"", "0.0.0-beta-7", &all, Some("/h/.local/share/opencode/opencode.db")),
            (b"", "0.0.0-next-16350", &all[1..], Some("/h/.local/share/opencode/opencode.db")),
            (b"OPENCODE_DISABLE_CHANNEL_DB=1\0", "0.0.0-next-16350", &all, Some("/h/.local/share/opencode/opencode.db")),
            // 1.15.0 and 1.18.34: a relative one lies in the data directory, wherever they are started.
            (b"OPENCODE_DB=new.db\0", "1.15.0", &all, Some("/h/.local/share/opencode/new.db")),
            (b"OPENCODE_DB=/d/new.db\0", "1.15.0", &all, Some("/d/new.db")),
            (b"OPENCODE_DB=:memory:\0", "1.15.0", &all, None),
            (b"OPENCODE_DB=\0", "1.15.0", &all, Some("/h/.local/share/opencode/opencode.db")),
            // 1.2.27 does not know the variable.
            (b"OPENCODE_DB=/d/new.db\0", "1.2.27", &[], Some("/h/.local/share/opencode/opencode.db")),
            (b"XDG_DATA_HOME=/x\0OPENCODE_DB=new.db\0", "1.15.0", &all, Some("/x/opencode/new.db")),
        ] {
            assert_eq!(opens(environ, version, features).as_deref(), expected, "{version} {}", String::from_utf8_lossy(environ));
        }
    }
}
