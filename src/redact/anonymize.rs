//! Consistent pseudonyms for addresses, users, hosts and homes: what was equal stays equal, and what was
//! different stays different.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::{Mutex, PoisonError};

use serde_json::Value as Json;

use crate::host::fact;

/// Gives pseudonyms. Learn all names first, then rewrite.
#[derive(Debug, Default)]
pub struct Anonymizer {
    names: BTreeSet<String>,
    hosts: BTreeSet<String>,
    homes: BTreeSet<String>,
    given: Mutex<Given>,
}

#[derive(Debug, Default)]
struct Given {
    users: HashMap<String, String>,
    hosts: HashMap<String, String>,
    homes: HashMap<String, String>,
    v4: HashMap<Ipv4Addr, Ipv4Addr>,
    v6: HashMap<Ipv6Addr, Ipv6Addr>,
    /// Pseudonyms in use, or never to be used because they are somebody's name.
    taken: HashSet<String>,
}

impl Anonymizer {
    /// One that knows no name yet.
    pub fn new() -> Anonymizer {
        Anonymizer::default()
    }

    /// A login name to hide. `root` and `nobody` name nobody.
    pub fn learn_user(&mut self, name: &str) {
        if !matches!(name, "" | "root" | "nobody") {
            self.names.insert(name.to_owned());
        }
    }

    /// A host name to hide, and its first label. Host names are the same in capitals (RFC 4343).
    pub fn learn_host(&mut self, name: &str) {
        let name = name.to_ascii_lowercase();
        let name = name.trim_end_matches('.');
        let first = name.split('.').next().unwrap_or_default();
        for name in [name, first] {
            if !matches!(name, "" | "localhost") && name.parse::<IpAddr>().is_err() {
                self.hosts.insert(name.to_owned());
            }
        }
    }

    /// A home directory to hide, and the login name that is its last part.
    pub fn learn_home(&mut self, path: &str) {
        let path = path.trim_end_matches('/');
        let Some((parent, last)) = path.rsplit_once('/') else { return };
        // `/root` and homes of services at the top (`/bin`, `/nonexistent`) tell nothing.
        if parent.is_empty() || last.is_empty() || !path.starts_with('/') {
            return;
        }
        if matches!(parent, "/home" | "/Users") {
            self.learn_user(last);
        }
        self.homes.insert(path.to_owned());
    }

    /// The text with every learned name and every address replaced.
    pub fn text(&self, text: &str) -> String {
        let mut given = self.given.lock().unwrap_or_else(PoisonError::into_inner);
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        let mut inside_word = false;
        while let Some(char) = rest.chars().next() {
            let found = if inside_word { None } else { self.replace(rest, out.chars().next_back(), &mut given) };
            match found {
                Some((length, pseudonym)) => {
                    out.push_str(&pseudonym);
                    inside_word = rest[..length].chars().next_back().is_some_and(is_word);
                    rest = &rest[length..];
                }
                None => {
                    out.push(char);
                    inside_word = is_word(char);
                    rest = &rest[char.len_utf8()..];
                }
            }
        }
        out
    }

    /// Every string and every key in the value. Keys that are plain identifiers are the schema's own words and stay.
    pub fn json(&self, value: &mut Json) {
        match value {
            Json::String(text) => *text = self.text(text),
            Json::Array(items) => items.iter_mut().for_each(|item| self.json(item)),
            Json::Object(object) => {
                let renamed = std::mem::take(object).into_iter().map(|(key, mut value)| {
                    match &mut value {
                        Json::String(text) if key == "b64" || key.ends_with("_b64") => *text = self.base64(text),
                        value => self.json(value),
                    }
                    let schema = key.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
                    (if schema { key } else { self.text(&key) }, value)
                });
                *object = renamed.collect();
            }
            Json::Null | Json::Bool(_) | Json::Number(_) => {}
        }
    }

    /// Bytes that are not text hold names all the same.
    fn base64(&self, text: &str) -> String {
        let Some(bytes) = fact::decode(text) else { return self.text(text) };
        let mut out = Vec::with_capacity(bytes.len());
        for chunk in bytes.utf8_chunks() {
            out.extend_from_slice(self.text(chunk.valid()).as_bytes());
            out.extend_from_slice(chunk.invalid());
        }
        fact::encode(&out)
    }

    /// What stands at the start of `rest`, which is the start of a word: its length and its pseudonym.
    fn replace(&self, rest: &str, before: Option<char>, given: &mut Given) -> Option<(usize, String)> {
        let longest = |names: &BTreeSet<String>| {
            names.iter().filter(|name| rest.starts_with(name.as_str()) && ends(rest, name.len())).max_by_key(|name| name.len()).cloned()
        };
        if rest.starts_with('/') {
            let home = longest(&self.homes)?;
            return Some((home.len(), self.home(&home, given)));
        }
        // `1.2.3.4` after a dot is the tail of something longer.
        if before != Some('.')
            && let Some((length, address)) = address(rest)
        {
            return Some((length, given.address(address)));
        }
        let host = |name: &&String| rest.get(..name.len()).is_some_and(|start| start.eq_ignore_ascii_case(name)) && ends(rest, name.len());
        if let Some(host) = self.hosts.iter().filter(host).max_by_key(|name| name.len()).cloned() {
            return Some((host.len(), self.host(&host, given)));
        }
        if let Some(name) = longest(&self.names) {
            return Some((name.len(), self.user(&name, given)));
        }
        // A name that looks like one of ours, and is not: it must not become equal to a pseudonym.
        let word: &str = rest.split(|char| !is_word(char)).next()?;
        if numbered(word, "user") {
            return Some((word.len(), self.user(word, given)));
        }
        numbered(word, "host").then(|| (word.len(), self.host(word, given)))
    }

    fn user(&self, name: &str, given: &mut Given) -> String {
        if let Some(pseudonym) = given.users.get(name) {
            return pseudonym.clone();
        }
        let pseudonym = self.fresh("user", given);
        given.users.insert(name.to_owned(), pseudonym.clone());
        pseudonym
    }

    fn host(&self, name: &str, given: &mut Given) -> String {
        if let Some(pseudonym) = given.hosts.get(name) {
            return pseudonym.clone();
        }
        let pseudonym = self.fresh("host", given);
        given.hosts.insert(name.to_owned(), pseudonym.clone());
        pseudonym
    }

    fn home(&self, path: &str, given: &mut Given) -> String {
        if let Some(pseudonym) = given.homes.get(path) {
            return pseudonym.clone();
        }
        let last = path.rsplit('/').next().unwrap_or_default();
        let pseudonym = match path.strip_prefix("/home/") {
            Some(name) if name == last && self.names.contains(name) => format!("/home/{}", self.user(name, given)),
            _ => format!("/home/{}", self.fresh("user", given)),
        };
        given.homes.insert(path.to_owned(), pseudonym.clone());
        pseudonym
    }

    fn fresh(&self, stem: &str, given: &mut Given) -> String {
        let known = |name: &String| self.names.contains(name) || self.hosts.contains(name);
        let free = (1u64..).map(|number| format!("{stem}{number}")).find(|name| !known(name) && !given.taken.contains(name));
        let pseudonym = free.unwrap_or_else(|| stem.to_owned());
        given.taken.insert(pseudonym.clone());
        pseudonym
    }
}

impl Given {
    fn address(&mut self, address: IpAddr) -> String {
        match address {
            IpAddr::V4(address) => self.address_v4(address).to_string(),
            IpAddr::V6(address) => match address.to_ipv4_mapped() {
                // The same peer, seen through a socket that serves both families.
                Some(inner) => self.address_v4(inner).to_ipv6_mapped().to_string(),
                None if address.is_loopback() || address.is_unspecified() => address.to_string(),
                None => {
                    let next = self.v6.len() as u128 + 1;
                    self.v6.entry(address).or_insert(Ipv6Addr::from_bits(0x2001_0db8 << 96 | next)).to_string()
                }
            },
        }
    }

    fn address_v4(&mut self, address: Ipv4Addr) -> Ipv4Addr {
        if address.is_loopback() || address.is_unspecified() {
            return address;
        }
        let next = u32::try_from(self.v4.len()).unwrap_or(u32::MAX);
        *self.v4.entry(address).or_insert_with(|| documentation(next))
    }
}

/// The addresses for documentation, then those for benchmarks between networks.
fn documentation(number: u32) -> Ipv4Addr {
    const BLOCKS: [Ipv4Addr; 3] = [Ipv4Addr::new(192, 0, 2, 1), Ipv4Addr::new(198, 51, 100, 1), Ipv4Addr::new(203, 0, 113, 1)];
    let start = BLOCKS.get(number as usize / 254);
    let bits =
        start.map_or_else(|| Ipv4Addr::new(198, 18, 0, 0).to_bits().wrapping_add(number - 762), |block| block.to_bits() + number % 254);
    Ipv4Addr::from_bits(bits)
}

/// The address at the start of the text, without its port, and its length.
fn address(text: &str) -> Option<(usize, IpAddr)> {
    let run = text.find(|char: char| !char.is_ascii_hexdigit() && char != ':' && char != '.').unwrap_or(text.len());
    let run = &text[..run];
    let whole = run.trim_end_matches(['.', ':']);
    if run.matches(':').count() >= 2
        && let Some(found) = longest_v6(run).filter(|&(length, _)| ends(text, length))
    {
        return Some(found);
    }
    let end = whole.find(|char: char| !char.is_ascii_digit() && char != '.').unwrap_or(whole.len());
    let plain = whole[..end].trim_end_matches('.');
    let v4: Ipv4Addr = plain.parse().ok()?;
    ends(text, plain.len()).then_some((plain.len(), IpAddr::V4(v4)))
}

/// `fe80::1:` at the end of a clause has a colon too many; `fe80::` has not.
fn longest_v6(run: &str) -> Option<(usize, IpAddr)> {
    let shorter = [0, 1, 2].iter().filter_map(|cut| run.get(..run.len().checked_sub(*cut)?));
    shorter.filter(|run| run.len() > 2 || *run == "::").find_map(|run| Some((run.len(), IpAddr::V6(run.parse().ok()?))))
}

fn is_word(char: char) -> bool {
    char.is_alphanumeric() || char == '_'
}

fn ends(text: &str, length: usize) -> bool {
    !text[length..].chars().next().is_some_and(is_word)
}

fn numbered(word: &str, stem: &str) -> bool {
    word.strip_prefix(stem).is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn learned() -> Anonymizer {
        let mut anonymizer = Anonymizer::new();
        anonymizer.learn_user("alice");
        anonymizer.learn_user("bob");
        anonymizer.learn_user("root");
        anonymizer.learn_host("box.example.org");
        anonymizer.learn_home("/home/alice");
        anonymizer.learn_home("/srv/people/carol");
        anonymizer
    }

    #[test]
    fn users_homes_hosts_and_addresses() {
        let anonymizer = learned();
        assert_eq!(anonymizer.text("10.1.2.3 51234 10.0.0.1 22"), "192.0.2.1 51234 192.0.2.2 22");
        assert_eq!(anonymizer.text("127.0.0.1:6010, [::1]:6010, 0.0.0.0:22, [::]:22"), "127.0.0.1:6010, [::1]:6010, 0.0.0.0:22, [::]:22");
        assert_eq!(anonymizer.text("10.1.2.3:51234 -> [fe80::7]:22"), "192.0.2.1:51234 -> [2001:db8::1]:22");
        assert_eq!(anonymizer.text("::ffff:10.1.2.3 1 ::ffff:127.0.0.1 2"), "::ffff:192.0.2.1 1 ::ffff:127.0.0.1 2");
        assert_eq!(anonymizer.text("/home/alice/.ssh:/home/alice"), "/home/user1/.ssh:/home/user1");
        assert_eq!(anonymizer.text("alice@pts/0 malice alice_x alice-tmp.txt"), "user1@pts/0 malice alice_x user1-tmp.txt");
        assert_eq!(anonymizer.text("/srv/people/carol/x"), "/home/user2/x");
        assert_eq!(anonymizer.text("/home/alicex"), "/home/alicex");
        assert_eq!(anonymizer.text("box.example.org box bob root"), "host1 host2 user3 root");
        assert_eq!(anonymizer.text("BOX.Example.org Box"), "host1 host2", "a host name in capitals is the same host");
        assert_eq!(anonymizer.text("localhost:10.0 /run/user/1000/bus 1.2.3"), "localhost:10.0 /run/user/1000/bus 1.2.3");
    }

    #[test]
    fn a_name_that_looks_like_a_pseudonym_does_not_become_equal_to_one() {
        let anonymizer = learned();
        assert_eq!(anonymizer.text("alice user1 user1 host1"), "user1 user2 user2 host1");
    }

    #[test]
    fn keys_and_bytes_in_json_too() {
        let anonymizer = learned();
        let mut value = json!({
            "paths//home/alice/x": { "user": "alice" },
            "value": ["10.1.2.3", 7],
            "b64": fact::encode(b"alice\xff"),
        });
        anonymizer.json(&mut value);
        let expected = json!({
            "paths//home/user1/x": { "user": "user1" },
            "value": ["192.0.2.1", 7],
            "b64": fact::encode(b"user1\xff"),
        });
        assert_eq!(value, expected);
    }

    #[test]
    fn more_addresses_than_one_block_holds_stay_apart() {
        let anonymizer = learned();
        let all: HashSet<String> =
            (0..1000u32).map(|number| anonymizer.text(&Ipv4Addr::from_bits(0x0a00_0001 + number).to_string())).collect();
        assert_eq!(all.len(), 1000);
        assert!(all.contains("192.0.2.254") && all.contains("198.51.100.1") && all.contains("203.0.113.254"));
    }

    proptest! {
        #[test]
        fn equal_stays_equal_and_different_different(texts in proptest::collection::vec(
            "(alice|bob|box|user[1-3]|10\\.0\\.0\\.[1-9]|fe80::[1-9]|/home/alice|[a-z]{1,3})([ :/@,-](alice|bob|box\\.example\\.org|10\\.1\\.1\\.[1-9]|x)){0,3}", 1..6)) {
            let anonymizer = learned();
            let out: Vec<String> = texts.iter().map(|text| anonymizer.text(text)).collect();
            for (text, shown) in texts.iter().zip(&out) {
                for (other, other_shown) in texts.iter().zip(&out) {
                    prop_assert_eq!(text == other, shown == other_shown, "{} {} {} {}", text, other, shown, other_shown);
                }
            }
        }

        #[test]
        fn a_learned_name_never_remains(name in "[a-z][a-z0-9]{3,8}", around in "[ -/:-@]{0,4}", text in "\\PC{0,8}") {
            prop_assume!(!matches!(name.as_str(), "root" | "nobody" | "localhost") && name.parse::<u64>().is_err());
            let mut anonymizer = Anonymizer::new();
            anonymizer.learn_user(&name);
            let out = anonymizer.text(&format!("{text} {around}{name}{around} /home/{name}"));
            let remains = out.split(|char| !is_word(char)).any(|word| word == name);
            prop_assert!(!remains, "{}", out);
        }
    }
}
