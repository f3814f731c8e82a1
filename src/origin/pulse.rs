//! `PULSE_SERVER`: addresses separated by blanks, tried in their order (pulse-client.conf(5), pa_parse_address).
//!
//! `unix:PATH` and `/PATH` are sockets, `tcp:HOST[:PORT]` and `HOST[:PORT]` hosts; the id of a machine in braces may stand before
//! each.

use crate::verdict::State;

use super::address::{at_tcp, split_port};
use super::owner::Hint;
use super::socket::examine_path;
use super::{Carrier, Named};

/// Where a PulseAudio server listens unless the address says otherwise.
const PORT: u16 = 4713;

/// `PULSE_SERVER`; the first address that lives decides.
pub(super) fn examine(carrier: &Carrier<'_>, value: &[u8]) -> Named {
    let Ok(text) = std::str::from_utf8(value) else { return Named::new(State::Unknown, "no address of a server") };
    let mut first = None;
    for one in text.split_ascii_whitespace() {
        let address = one.strip_prefix('{').and_then(|rest| rest.split_once('}')).map_or(one, |(_, rest)| rest);
        let named = server(carrier, address);
        if named.liveness.state == State::Alive {
            return named;
        }
        first.get_or_insert(named);
    }
    first.unwrap_or_else(|| Named::new(State::None, "it names no address"))
}

fn server(carrier: &Carrier<'_>, address: &str) -> Named {
    let path = address.strip_prefix("unix:").or_else(|| address.starts_with('/').then_some(address));
    if let Some(path) = path {
        return examine_path(carrier, path.as_bytes());
    }
    let place = ["tcp4:", "tcp6:", "tcp:"].iter().find_map(|scheme| address.strip_prefix(scheme)).unwrap_or(address);
    match split_port(place, Some(PORT)) {
        ("", _) | (_, None) => Named::new(State::Unknown, "no address of a server"),
        (host, Some(port)) => at_tcp(carrier, host, port, &Hint::default()),
    }
}
