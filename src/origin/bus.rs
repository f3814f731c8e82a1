//! `DBUS_SESSION_BUS_ADDRESS`: `transport:key=value,…`, several separated by semicolons, tried in order.

use crate::host::connect::Target;
use crate::verdict::State;

use super::address;
use super::owner::Hint;
use super::socket;
use super::{Carrier, Named};

/// Programs that serve buses.
const SERVERS: &[&str] = &["dbus-daemon", "dbus-broker", "systemd"];

/// One address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// `unix`, `tcp`, …
    pub transport: String,
    /// Keys and values, escapes resolved.
    pub keys: Vec<(String, Vec<u8>)>,
}

impl Address {
    /// The addresses in a value; what is none is left out.
    pub fn parse_all(value: &[u8]) -> Vec<Address> {
        value.split(|&byte| byte == b';').filter_map(Address::parse).collect()
    }

    fn parse(text: &[u8]) -> Option<Address> {
        let at = memchr::memchr(b':', text)?;
        let transport = std::str::from_utf8(&text[..at]).ok()?.to_owned();
        let pair = |part: &[u8]| {
            let at = memchr::memchr(b'=', part)?;
            Some((std::str::from_utf8(&part[..at]).ok()?.to_owned(), unescape(&part[at + 1..])?))
        };
        let parts = text[at + 1..].split(|&byte| byte == b',').filter(|part| !part.is_empty());
        Some(Address { transport, keys: parts.map(pair).collect::<Option<_>>()? })
    }

    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&[u8]> {
        self.keys.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_slice())
    }

    fn text(&self, key: &str) -> Option<&str> {
        std::str::from_utf8(self.get(key)?).ok()
    }
}

fn unescape(text: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&first, behind)) = rest.split_first() {
        rest = behind;
        if first != b'%' {
            bytes.push(first);
            continue;
        }
        let (digits, behind) = rest.split_at_checked(2)?;
        // `from_str_radix` would take a sign.
        if !digits.iter().all(u8::is_ascii_hexdigit) {
            return None;
        }
        bytes.push(u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?);
        rest = behind;
    }
    Some(bytes)
}

/// `DBUS_SESSION_BUS_ADDRESS`.
pub(super) fn examine(carrier: &Carrier<'_>, value: &[u8]) -> Named {
    let mut first: Option<Named> = None;
    for address in Address::parse_all(value) {
        let named = one(carrier, &address);
        if named.liveness.state == State::Alive {
            return named;
        }
        first.get_or_insert(named);
    }
    first.unwrap_or_else(|| Named::new(State::Unknown, "not of the form transport:key=value, so no bus can be looked up"))
}

fn one(carrier: &Carrier<'_>, address: &Address) -> Named {
    let hint = Hint::names(SERVERS);
    let (named, target) = match address.transport.as_str() {
        "unix" => {
            if let Some(path) = address.get("path") {
                let found = socket::at_path(carrier, path, &hint);
                (socket::note_age(carrier, found.named, found.fact.as_ref()), Target::Unix { view: carrier.view, path: path.to_vec() })
            } else if let Some(name) = address.get("abstract") {
                (socket::at_abstract(carrier, name, &hint), Target::Abstract { view: carrier.view, name: name.to_vec() })
            } else {
                return Named::new(State::Unknown, "no rule for a unix address without path or abstract name");
            }
        }
        "tcp" | "nonce-tcp" => {
            let (host, port) = (address.text("host").unwrap_or("localhost"), address.text("port").and_then(|port| port.parse().ok()));
            match port {
                Some(port) => return address::at_tcp(carrier, host, port, &hint),
                None => return Named::new(State::Unknown, "a TCP address without a port"),
            }
        }
        other => return Named::new(State::Unknown, format!("no rule for the transport {other:?}")),
    };
    if !carrier.connect || !named.may_answer() {
        return named;
    }
    let answer = carrier.host.call_bus(&target);
    named.answered(carrier, target.to_string(), answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_escapes_keys_and_alternatives() {
        let all = Address::parse_all(b"unix:path=/run/user/1000/b%75s%2c1,guid=ab;unix:abstract=/tmp/dbus-x;tcp:host=localhost,port=5");
        let shown: Vec<_> = all.iter().map(|address| address.transport.as_str()).collect();
        assert_eq!(shown, ["unix", "unix", "tcp"]);
        assert_eq!(all[0].get("path"), Some(&b"/run/user/1000/bus,1"[..]));
        assert_eq!(all[0].get("guid"), Some(&b"ab"[..]));
        assert_eq!(all[1].get("abstract"), Some(&b"/tmp/dbus-x"[..]));
        assert_eq!(Address::parse_all(b"autolaunch:").len(), 1);
        assert!(Address::parse_all(b"unix:path=%zz").is_empty());
        assert!(Address::parse_all(b"unix:path=%+1").is_empty());
        assert!(Address::parse_all(b"/run/user/1000/bus").is_empty());
    }

    proptest::proptest! {
        #[test]
        fn no_value_panics(value in proptest::collection::vec(proptest::num::u8::ANY, 0..80)) {
            let _ = Address::parse_all(&value);
        }
    }
}
