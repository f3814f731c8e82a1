//! Where the programs and databases of an account may be: directories are listed, nothing is opened.

use crate::host::{Environ, FileKind, Host, Raw, View};

/// Whose files are looked for.
pub(super) struct Account<'e> {
    pub environ: &'e Environ,
    pub view: View,
}

impl Account<'_> {
    fn home(&self) -> Option<&[u8]> {
        self.environ.bytes("HOME").filter(|home| home.starts_with(b"/"))
    }

    fn data(&self) -> Option<Vec<u8>> {
        let xdg = self.environ.bytes("XDG_DATA_HOME").filter(|dir| dir.starts_with(b"/")).map(<[u8]>::to_vec);
        Some([&xdg.or_else(|| Some([self.home()?, b"/.local/share"].concat()))?[..], b"/opencode"].concat())
    }
}

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
    let mut homes: Vec<Vec<u8>> = Vec::new();
    if let Some(home) = account.home() {
        for below in [&b".opencode/bin"[..], b".cargo/bin", b".local/bin"] {
            found.extend(NAMES.iter().map(|name| (join(&join(home, below), name), "home")));
        }
        homes.push(join(home, b".npm-global/lib/node_modules"));
    }
    // npm's global folder lies beside the directory of its programs.
    homes.extend(dirs.iter().filter_map(|dir| Some([dir.strip_suffix(b"/bin")?, b"/lib/node_modules"].concat())));
    homes.extend([&b"/usr/local/lib/node_modules"[..], b"/usr/lib/node_modules"].map(<[u8]>::to_vec));
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
    let home = account.home().map(|home| [&b".opencode/bin"[..], b".cargo/bin", b".local/bin"].map(|below| [home, b"/", below].concat()));
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
    let Some(dir) = account.data() else { return Vec::new() };
    let names = host.listing(account.view, &dir).unwrap_or_default();
    let is_one = |name: &Raw| name.as_bytes().starts_with(b"opencode") && name.as_bytes().ends_with(b".db");
    let named = account.environ.bytes("OPENCODE_DB").filter(|path| path.starts_with(b"/")).map(<[u8]>::to_vec);
    names.into_iter().filter(is_one).map(|name| [&dir[..], b"/", name.as_bytes()].concat()).chain(named).map(Raw).collect()
}
