//! Addresses: TCP ports of this machine, and the many ways in which a variable names a socket.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::host::{Fact, Net, Tcp};
use crate::verdict::State;

use super::owner::{self, Hint};
use super::socket::{at_abstract, examine_path, hint_of};
use super::ssh::Connection;
use super::{Carrier, Named};

/// Where a host name or address in a value leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Where {
    /// To these addresses of this machine.
    Here(Vec<IpAddr>),
    /// To this machine by its name, for which `/etc/hosts` has no address that is known to be this machine's: to whatever
    /// address the name service gives it.
    ByName,
    /// To another machine, or to a name that only the network could resolve.
    Elsewhere,
}

/// What a client would reach.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reached {
    /// This listener.
    Listener(Tcp),
    /// Nothing: the connection is refused.
    Nothing,
    /// That is not known: the address of the name is not.
    Unresolved,
}

/// Where a host name or address in a value leads. Nothing is resolved over the network.
pub fn locate(carrier: &Carrier<'_>, host: &str) -> Where {
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let loopback = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];
    if ["", "localhost", "localhost.localdomain", "ip6-localhost", "ip6-loopback"].iter().any(|name| host.eq_ignore_ascii_case(name)) {
        return Where::Here(loopback.to_vec());
    }
    if let Ok(ip) = host.split('%').next().unwrap_or_default().parse::<IpAddr>() {
        let ip = crate::host::sockets::plain_ip(ip);
        if ip.is_unspecified() {
            return Where::Here(loopback.to_vec());
        }
        return if is_ours(carrier, ip) { Where::Here(vec![ip]) } else { Where::Elsewhere };
    }
    let mut addresses = carrier.host.addresses_of(carrier.view, host).unwrap_or_default();
    addresses.retain(|ip| is_ours(carrier, *ip));
    if !addresses.is_empty() {
        return Where::Here(addresses);
    }
    let own = &carrier.host.machine().hostname;
    let short = |name: &str| name.split('.').next().unwrap_or_default().to_ascii_lowercase();
    let same = host.eq_ignore_ascii_case(own) || (short(host) == short(own) && (!host.contains('.') || !own.contains('.')));
    if !own.is_empty() && same { Where::ByName } else { Where::Elsewhere }
}

/// Whether an address is known to be this machine's, in the carrier's network.
fn is_ours(carrier: &Carrier<'_>, ip: IpAddr) -> bool {
    let bound = || carrier.host.net(carrier.view).tcp_rows().is_ok_and(|mut rows| rows.any(|row| row.local.ip() == ip));
    let server = || Connection::of_birth(carrier).is_some_and(|connection| connection.server.ip() == ip);
    ip.is_loopback() || bound() || server()
}

/// The listener that a client would reach, if there is one.
///
/// # Errors
/// Why the socket tables could not be read.
pub fn tcp_listener(net: &Net, place: &Where, port: u16) -> Fact<Reached> {
    match place {
        Where::Here(addresses) => {
            for ip in addresses {
                if let Some(row) = net.listener(*ip, port)? {
                    return Ok(Reached::Listener(row.clone()));
                }
            }
            Ok(Reached::Nothing)
        }
        // Whatever address of this machine the name has, a listener on all of them is reached.
        Where::ByName => {
            let wild = net.tcp_rows()?.find(|row| row.listen && row.local.port() == port && row.local.ip().is_unspecified());
            Ok(wild.cloned().map_or(Reached::Unresolved, Reached::Listener))
        }
        Where::Elsewhere => Ok(Reached::Unresolved),
    }
}

/// A host's own name whose address is not known.
pub(super) fn unresolved(carrier: &Carrier<'_>, host: &str) -> Named {
    let detail = match carrier.host.addresses_of(carrier.view, host) {
        Ok(addresses) if addresses.is_empty() => format!("/etc/hosts has no address for {host}, so what it leads to is not known"),
        Ok(_) => format!("the address of {host} in /etc/hosts is not known to be this machine's"),
        Err(unknown) => format!("the address of {host} is not known: {unknown}"),
    };
    Named::new(State::Unknown, detail)
}

/// Judges a TCP address.
pub fn at_tcp(carrier: &Carrier<'_>, host: &str, port: u16, hint: &Hint<'_>) -> Named {
    let place = locate(carrier, host);
    if place == Where::Elsewhere {
        return Named::new(State::Unknown, format!("it is on another host ({host}), which is not looked at"));
    }
    let net = carrier.host.net(carrier.view);
    let source = format!("{}/tcp", net.source);
    match tcp_listener(&net, &place, port) {
        Ok(Reached::Listener(row)) => {
            let found = owner::of_listener(carrier.host, row.inode, Some(row.uid), hint);
            let mut named = Named::new(State::Alive, "something listens").with([carrier.saw(source, row_in_words(&row))]);
            named.evidence.extend(found.evidence.map(|(source, detail)| carrier.saw(source, detail)));
            named.owner = found.owner;
            named
        }
        Ok(Reached::Unresolved) => unresolved(carrier, host),
        Ok(Reached::Nothing) => {
            Named::new(State::Refused, format!("nothing listens on port {port}")).with([carrier.saw(source, no_row(port))])
        }
        Err(unknown) => Named::unknown("the TCP table", &unknown),
    }
}

/// A listener's row in words.
pub(super) fn row_in_words(row: &Tcp) -> String {
    format!("{} listens, uid {}, inode {}", row.local, row.uid, row.inode)
}

pub(super) fn no_row(port: u16) -> String {
    format!("no listener on port {port}")
}

/// The address to call for a listener.
pub(super) fn callable(row: &Tcp) -> SocketAddr {
    match row.local.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => SocketAddr::new(Ipv4Addr::LOCALHOST.into(), row.local.port()),
        IpAddr::V6(ip) if ip.is_unspecified() => SocketAddr::new(Ipv6Addr::LOCALHOST.into(), row.local.port()),
        _ => row.local,
    }
}

/// A variable that holds an address: `unix:PATH`, `unix://PATH`, `unix:@NAME`, `tcp:HOST:PORT`, `scheme://HOST:PORT`, PATH or
/// `HOST:PORT`. A path may hold blanks.
pub(super) fn examine(carrier: &Carrier<'_>, value: &[u8]) -> Named {
    match std::str::from_utf8(value) {
        Ok(text) => one_address(carrier, text),
        Err(_) => examine_path(carrier, value),
    }
}

fn one_address(carrier: &Carrier<'_>, address: &str) -> Named {
    let (scheme, rest) = match address.split_once(':') {
        Some((scheme, rest)) if !scheme.is_empty() && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte)) => {
            (scheme, rest)
        }
        _ if address.starts_with('/') => return examine_path(carrier, without_numbers(address).as_bytes()),
        _ if address.contains(':') => ("", address),
        _ => return Named::new(State::Unknown, "a name alone: there is no rule for where it leads"),
    };
    let rest = rest.strip_prefix("//").unwrap_or(rest);
    match scheme.to_ascii_lowercase().as_str() {
        "unix" | "local" => match rest.strip_prefix('@') {
            Some(name) => at_abstract(carrier, name.as_bytes(), &hint_of(name.as_bytes())),
            None => examine_path(carrier, rest.as_bytes()),
        },
        "fd" => Named::new(State::None, "an open file of its own, which no name leads to"),
        other => {
            let authority = rest.split(['/', '?']).next().unwrap_or_default();
            let authority = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
            let default = match other {
                "http" | "ws" => Some(80),
                "https" | "wss" => Some(443),
                "ssh" => Some(22),
                "socks" | "socks4" | "socks5" | "socks5h" => Some(1080),
                _ => None,
            };
            let plain = rest == authority && authority.bytes().all(|byte| byte.is_ascii_digit()) && default.is_none();
            // `localhost:1234` has the shape of a scheme and its rest.
            let (host, port) = if plain { (scheme, authority.parse().ok()) } else { split_port(authority, default) };
            match port {
                Some(port) => at_tcp(carrier, host, port, &Hint::default()),
                None => Named::new(State::Unknown, "no rule for an address of this form"),
            }
        }
    }
}

/// A proxy: `[scheme://][user:password@]host:port[/]`. Nobody else's machine is looked at.
pub(super) fn examine_proxy(carrier: &Carrier<'_>, value: &[u8]) -> Named {
    let Ok(text) = std::str::from_utf8(value) else { return Named::new(State::Unknown, "no address of a proxy") };
    let (scheme, rest) = text.trim().split_once("://").unwrap_or(("", text.trim()));
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let authority = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let default = if scheme.to_ascii_lowercase().starts_with("socks") { Some(1080) } else { None };
    match split_port(authority, default) {
        (_, Some(0)) | ("", _) => Named::new(State::Unknown, "no address of a proxy"),
        (host, Some(port)) => at_tcp(carrier, host, port, &Hint::default()),
        // curl takes port 1080 then, others that of the scheme.
        (_, None) => Named::new(State::Unknown, "it names no port, and programs differ in which they take"),
    }
}

pub(super) fn split_port(authority: &str, default: Option<u16>) -> (&str, Option<u16>) {
    match authority.rsplit_once(':') {
        Some((host, port)) if !host.contains(':') || host.starts_with('[') => (host, port.parse().ok()),
        _ => (authority, default),
    }
}

/// `GPG_AGENT_INFO` has the pid and the version of the protocol behind its path.
fn without_numbers(address: &str) -> &str {
    let mut path = address;
    for _ in 0..2 {
        match path.rsplit_once(':') {
            Some((rest, number)) if !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()) => path = rest,
            _ => return address,
        }
    }
    path
}
