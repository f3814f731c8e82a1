//! npm's global folder: where `npm install -g` of an account puts packages.
//!
//! npm takes its `prefix` from the first of these that names one: the environment (`npm_config_prefix` in any case of letters,
//! `PREFIX`), the user's settings (`npm_config_userconfig`, else `~/.npmrc`), the machine's, and the directory above that of the
//! `node` that runs it, links followed (npm 11.19). All of them are looked at: what one of them held before is still there.

use super::places::Account;
use crate::host::{Host, View};

/// The folders with packages that may be there.
pub(super) fn folders(host: &Host, account: &Account<'_>, dirs: &[&[u8]]) -> Vec<Vec<u8>> {
    let view = account.view;
    let below = |prefix: &[u8]| [prefix.strip_suffix(b"/").unwrap_or(prefix), b"/lib/node_modules"].concat();
    let mut prefixes: Vec<Vec<u8>> = Vec::new();
    prefixes.extend(setting(account, "prefix").or_else(|| account.environ.bytes("PREFIX").map(<[u8]>::to_vec)));
    let settings = setting(account, "userconfig").or_else(|| Some([account.home()?, b"/.npmrc"].concat()));
    let machine = setting(account, "globalconfig").unwrap_or_else(|| b"/etc/npmrc".to_vec());
    for file in settings.into_iter().chain([machine]) {
        let read = host.document(view, &file, |text| Ok(prefix_in(&String::from_utf8_lossy(text)))).ok();
        let named = read.and_then(|document| document.content.ok().flatten());
        prefixes.extend(named.and_then(|value| filled(account, value.as_bytes())));
    }
    prefixes.extend(account.home().map(|home| [home, b"/.npm-global"].concat()));
    for dir in dirs {
        // npm's global folder lies beside the directory of its programs.
        prefixes.extend(dir.strip_suffix(b"/bin").map(<[u8]>::to_vec));
        prefixes.extend(node(host, view, dir).and_then(|node| Some(node.strip_suffix(b"/bin/node")?.to_vec())));
    }
    prefixes.extend([&b"/usr/local"[..], b"/usr"].map(<[u8]>::to_vec));
    prefixes.iter().filter(|prefix| prefix.starts_with(b"/")).map(|prefix| below(prefix)).collect()
}

/// A setting by the environment: npm does not mind the case of its letters.
fn setting(account: &Account<'_>, name: &str) -> Option<Vec<u8>> {
    let wanted = format!("npm_config_{name}");
    let named = account.environ.entries.iter().find(|entry| entry.name.as_bytes().eq_ignore_ascii_case(wanted.as_bytes()))?;
    filled(account, named.value.as_ref()?.clear().filter(|value| !value.is_empty())?)
}

/// A path with `~` and `${NAME}` put in.
fn filled(account: &Account<'_>, value: &[u8]) -> Option<Vec<u8>> {
    let value = match value.strip_prefix(b"~/") {
        Some(rest) => [account.home()?, b"/", rest].concat(),
        None => value.to_vec(),
    };
    let (mut whole, mut rest) = (Vec::new(), &value[..]);
    while let Some(at) = memchr::memmem::find(rest, b"${") {
        let end = at + memchr::memchr(b'}', &rest[at..])?;
        whole.extend_from_slice(&rest[..at]);
        whole.extend_from_slice(account.environ.bytes(std::str::from_utf8(&rest[at + 2..end]).ok()?)?);
        rest = &rest[end + 1..];
    }
    whole.extend_from_slice(rest);
    Some(whole)
}

/// The `prefix` of a file of settings: `key = value` a line, before any section; the last one counts.
fn prefix_in(text: &str) -> Option<String> {
    let lines = text.lines().map(str::trim).take_while(|line| !line.starts_with('['));
    let values = lines.filter_map(|line| {
        let (key, value) = line.split_once('=')?;
        let value = value.trim();
        let bare = |quote: char| value.strip_prefix(quote)?.strip_suffix(quote);
        (key.trim() == "prefix").then(|| bare('"').or_else(|| bare('\'')).unwrap_or(value).to_owned())
    });
    values.last().filter(|value| !value.is_empty())
}

/// Where the `node` of a directory really is.
fn node(host: &Host, view: View, dir: &[u8]) -> Option<Vec<u8>> {
    let mut path = [dir, b"/node"].concat();
    for _ in 0..8 {
        let Some(link) = host.path(view, &path).ok()?.link else { return Some(path) };
        path = match link.as_bytes() {
            absolute if absolute.starts_with(b"/") => absolute.to_vec(),
            relative => resolved(&path, relative)?,
        };
    }
    None
}

/// A link's target, from the directory that the link is in.
fn resolved(link: &[u8], target: &[u8]) -> Option<Vec<u8>> {
    let mut parts: Vec<&[u8]> = link.split(|byte| *byte == b'/').collect();
    parts.pop()?;
    for part in target.split(|byte| *byte == b'/') {
        match part {
            b".." => drop(parts.pop()?),
            b"." | b"" => {}
            name => parts.push(name),
        }
    }
    Some(parts.join(&b'/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_name_a_prefix() {
        for (text, expected) in [
            ("prefix=/a\n", Some("/a")),
            ("; prefix=/no\nregistry = x\nprefix = \"${HOME}/b\"\n", Some("${HOME}/b")),
            ("prefix=/a\nprefix=/b\n[s]\nprefix=/c\n", Some("/b")),
            ("prefixed=/a\nprefix=\n", None),
        ] {
            assert_eq!(prefix_in(text).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn a_link_leads_on_from_where_it_is() {
        assert_eq!(resolved(b"/usr/bin/node", b"../../opt/node/bin/node"), Some(b"/opt/node/bin/node".to_vec()));
    }
}
