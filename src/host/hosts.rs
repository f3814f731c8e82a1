//! `/etc/hosts`: which addresses a host name has on a machine, without asking the network.

use std::net::IpAddr;

use super::fact::{Fact, Unknown};
use super::files::file_of;
use super::process::View;
use super::{Host, sockets};

impl Host {
    /// The addresses that `/etc/hosts` gives a name, as `view` sees the file; none where the name or the file is not there.
    ///
    /// A snapshot keeps the answer for the names that were asked for, and not the file.
    ///
    /// # Errors
    /// Why the file could not be read.
    pub fn addresses_of(&self, view: View, name: &str) -> Fact<Vec<IpAddr>> {
        self.fact(&file_of("hosts", view), &format!("name {}", name.to_ascii_lowercase()), || match self.small_file(view, b"/etc/hosts") {
            Ok(text) => Ok(addresses(&text, name)),
            Err(Unknown::Absent) => Ok(Vec::new()),
            Err(other) => Err(other),
        })
    }
}

/// The addresses that a file of the form of `/etc/hosts` gives a name, in the file's order. hosts(5): an address and names on a line,
/// `#` begins a comment; names are compared without case.
pub fn addresses(text: &[u8], name: &str) -> Vec<IpAddr> {
    let line = |line: &[u8]| {
        let line = line.split(|&byte| byte == b'#').next().unwrap_or_default();
        let mut words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
        let address = std::str::from_utf8(words.next()?).ok()?;
        let ip: IpAddr = address.split('%').next()?.parse().ok()?;
        words.any(|word| word.eq_ignore_ascii_case(name.as_bytes())).then(|| sockets::plain_ip(ip))
    };
    let mut found = Vec::new();
    for ip in text.split(|&byte| byte == b'\n').filter_map(line) {
        if !found.contains(&ip) {
            found.push(ip);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Debian's installer writes the second line; Docker and many hosters the third.
    const HOSTS: &[u8] =
        b"127.0.0.1\tlocalhost # me\n127.0.1.1\tbox.example.org\tbox\n127.0.0.1 Cube\n::1 cube six\n#192.0.2.9 box\nx box\n192.0.2.7\n";

    #[test]
    fn names_have_the_addresses_of_their_lines() {
        let of = |name| addresses(HOSTS, name).iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(of("box"), ["127.0.1.1"]);
        assert_eq!(of("BOX.example.ORG"), ["127.0.1.1"]);
        assert_eq!(of("cube"), ["127.0.0.1", "::1"]);
        assert_eq!(of("me"), [""; 0], "a comment is no name");
        assert_eq!(of("192.0.2.7"), [""; 0], "an address is no name");
        assert_eq!(of(""), [""; 0]);
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_panic(text in proptest::collection::vec(proptest::num::u8::ANY, 0..200), name in ".{0,10}") {
            let _ = addresses(&text, &name);
        }
    }
}
