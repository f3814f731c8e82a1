//! Secrets by shape: what a value looks like, wherever in it the secret stands.

use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, AhoCorasickKind};

use super::names::secret_name;

/// Prefixes of tokens that their issuers chose so that they can be recognised, and how much must follow.
const PREFIXES: [(&str, usize); 38] = [
    ("sk-", 12),
    ("sk_live_", 8),
    ("sk_test_", 8),
    ("rk_live_", 8),
    ("whsec_", 12),
    ("ghp_", 12),
    ("gho_", 12),
    ("ghu_", 12),
    ("ghs_", 12),
    ("ghr_", 12),
    ("github_pat_", 12),
    ("glpat-", 12),
    ("gldt-", 12),
    ("glrt-", 12),
    ("xoxb-", 8),
    ("xoxp-", 8),
    ("xoxa-", 8),
    ("xoxr-", 8),
    ("xoxs-", 8),
    ("xapp-", 8),
    ("AKIA", 16),
    ("ASIA", 16),
    ("AIza", 20),
    ("ya29.", 12),
    ("npm_", 30),
    ("pypi-", 30),
    ("hf_", 20),
    ("gsk_", 20),
    ("xai-", 20),
    ("tvly-", 12),
    ("nvapi-", 12),
    ("dop_v1_", 12),
    ("shpat_", 12),
    ("lin_api_", 12),
    ("ntn_", 20),
    ("SG.", 20),
    ("AGE-SECRET-KEY-", 8),
    ("hvs.", 12),
];

/// Whether some part of the value has the shape of a secret.
pub(super) fn secret(value: &[u8]) -> bool {
    MARKS.as_ref().is_none_or(|marks| marks.is_match(value))
        && (pem(value) || userinfo(value) || account(value) || scheme(value) || parameter(value) || jwt(value) || prefixed(value))
}

/// Whether some part of a word is a token by its prefix or its form: what no sentence of this program has a reason to say.
pub(super) fn token(word: &[u8]) -> bool {
    jwt(word) || prefixed(word) || userinfo(word)
}

/// What each shape has in it, in either case: most values have none of it, and one pass says so.
static MARKS: LazyLock<Option<AhoCorasick>> = LazyLock::new(|| {
    let others = ["-----BEGIN ", "://", "bearer ", "basic ", "authorization", "=", "@", "eyJ"];
    let marks = PREFIXES.iter().map(|(prefix, _)| *prefix).chain(others);
    AhoCorasick::builder().ascii_case_insensitive(true).kind(Some(AhoCorasickKind::DFA)).build(marks).ok()
});

fn pem(value: &[u8]) -> bool {
    memchr::memmem::find(value, b"-----BEGIN ").is_some()
}

/// A password, or a token in its place, before the host of a URL.
fn userinfo(value: &[u8]) -> bool {
    memchr::memmem::find_iter(value, b"://").any(|at| {
        let scheme = value[..at].rsplit(|byte| !byte.is_ascii_alphanumeric() && !b"+-.".contains(byte)).next().unwrap_or_default();
        let rest = &value[at + 3..];
        let end = rest.iter().position(|byte| b"/?# \t\n\"'".contains(byte)).unwrap_or(rest.len());
        let Some(sign) = memchr::memrchr(b'@', &rest[..end]) else {
            // A password may hold a bare `/`: then the `@` stands behind what looks like the end of the host.
            return memchr::memchr(b':', &rest[..end]).is_some_and(|colon| !port(&rest[colon + 1..end])) && rest[end..].contains(&b'@');
        };
        // `ssh://git@host` names an account, no secret.
        let names_an_account = [&b"ssh"[..], b"git+ssh", b"ssh+git", b"sftp", b"rsync", b"svn+ssh"].contains(&scheme);
        rest[..sign].contains(&b':') || !names_an_account
    })
}

/// The same without a scheme, as `tcp:user:password@host` and `user:password@host` have it.
fn account(value: &[u8]) -> bool {
    /// What stands before an address, and so before an account's name that is no password.
    const OF_ADDRESSES: [&[u8]; 6] = [b"mailto", b"xmpp", b"sip", b"sips", b"acct", b"ssh"];
    memchr::memchr_iter(b'@', value).any(|sign| {
        let (before, after) = (&value[..sign], &value[sign + 1..]);
        let host = after.first().is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'[');
        // A digest of an image: `name:tag@sha256:…`.
        if !host || after.starts_with(b"sha256:") || after.starts_with(b"sha512:") {
            return false;
        }
        let Some(colon) = before.iter().rposition(|byte| b":/ \t\n\"',;=?&".contains(byte)).filter(|at| before[*at] == b':') else {
            return false;
        };
        let word = |byte: &u8| byte.is_ascii_alphanumeric() || b"._-+".contains(byte);
        let name = before[..colon].rsplit(|byte| !word(byte)).next().unwrap_or_default();
        colon + 1 < sign && !name.is_empty() && !OF_ADDRESSES.contains(&name)
    })
}

fn port(text: &[u8]) -> bool {
    // An IPv6 address in brackets has colons of its own.
    text.iter().all(|byte| byte.is_ascii_hexdigit() || b":]%".contains(byte))
}

/// What follows `Bearer` or `Basic` in a header.
fn scheme(value: &[u8]) -> bool {
    [&b"bearer "[..], b"basic ", b"authorization:", b"authorization="].iter().any(|word| {
        let found = value.windows(word.len()).position(|window| window.eq_ignore_ascii_case(word));
        found.is_some_and(|at| {
            let rest = value[at + word.len()..].trim_ascii_start();
            boundary(value, at) && rest.iter().take_while(|byte| !byte.is_ascii_whitespace()).count() >= 6
        })
    })
}

/// `password=…` inside a connection string, a query or a list of settings.
fn parameter(value: &[u8]) -> bool {
    memchr::memchr_iter(b'=', value).any(|at| {
        let word = |byte: &u8| byte.is_ascii_alphanumeric() || b"_-".contains(byte);
        let start = value[..at].iter().rposition(|byte| !word(byte)).map_or(0, |before| before + 1);
        let filled = value.get(at + 1).is_some_and(|byte| !byte.is_ascii_whitespace() && !b"=&;,".contains(byte));
        filled && secret_name(&value[start..at])
    })
}

fn jwt(value: &[u8]) -> bool {
    memchr::memmem::find_iter(value, b"eyJ").any(|at| {
        let mut parts = value[at..].split(|&byte| byte == b'.');
        let mut long = || parts.next().is_some_and(|part| part.iter().take_while(|byte| symbol(byte)).count() >= 8);
        boundary(value, at) && long() && long()
    })
}

fn prefixed(value: &[u8]) -> bool {
    PREFIXES.iter().any(|(prefix, least)| {
        memchr::memmem::find_iter(value, prefix.as_bytes()).any(|at| {
            boundary(value, at) && value[at + prefix.len()..].iter().take_while(|byte| symbol(byte) || **byte == b'.').count() >= *least
        })
    })
}

fn symbol(byte: &u8) -> bool {
    byte.is_ascii_alphanumeric() || b"_-".contains(byte)
}

fn boundary(value: &[u8], at: usize) -> bool {
    at == 0 || !value[at - 1].is_ascii_alphanumeric()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_of_secrets() {
        let secrets = [
            "https://user:pass@example.org/x",
            "https://ghtoken@github.com/o/r.git",
            "postgres://app:p%40ss@db:5432/app",
            "redis://:pw@127.0.0.1:6379",
            "http://u:pa/ss@proxy:3128",
            "ssh://git:pw@host/x",
            "/usr/bin:https://u:p@h/x:/bin",
            "-----BEGIN OPENSSH PRIVATE KEY-----\nb3Bl",
            "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.abc",
            "sk-proj-abcdefghijklmnop",
            "ghp_0123456789abcdefghijABCDEFGHIJ012345",
            "github_pat_11AAAAAAA0abcdefghijk",
            "xoxb-1234567890-abcdef",
            "AKIAIOSFODNN7EXAMPLE",
            "glpat-abcdefghijklmnop1234",
            "AIzaSyA-1234567890abcdefghijklmnopqrstu",
            "Authorization: Bearer abcdef123456",
            "X: Basic dXNlcjpwYXNz",
            "Server=db;User=sa;Password=hunter2",
            "http://127.0.0.1/x?token=abc",
        ];
        for value in secrets {
            assert!(secret(value.as_bytes()), "{value}");
        }
    }

    #[test]
    fn values_that_are_none() {
        let innocent = [
            "localhost:10.0",
            "/tmp/ssh-XXXXXXabcd/agent.4242",
            "unix:path=/run/user/1000/bus,guid=0123456789abcdef0123456789abcdef",
            "ssh://git@github.com/o/r.git",
            "ssh://me@build-host",
            "http://127.0.0.1:4096/",
            "http://[::1]:8080/a@b",
            "unix:///run/user/1000/docker.sock",
            "/home/u/task-force/sk-x:/usr/bin",
            "en_US.UTF-8",
            "/opt/npm_global/bin",
            "basic",
        ];
        for value in innocent {
            assert!(!secret(value.as_bytes()), "{value}");
        }
    }
}
