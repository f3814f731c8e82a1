//! `XAUTHORITY`: the file with the cookies, and whether it has one for the carrier's display.
//!
//! A cookie outlives its session: an entry says that there once was such a display, not that there is.

use serde::{Deserialize, Serialize};

use crate::host::{Fact, PathFact, Raw, Unknown, xauth};
use crate::verdict::State;

use super::access::{self, Allowed, READ, User};
use super::address::{self, Where};
use super::display::{Display, Way};
use super::socket;
use super::{Carrier, Named};

/// What is kept of a record: everything but the cookie.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// What kind of address it is: see [`xauth`].
    pub family: u16,
    /// A host name, or the bytes of an IP address.
    pub address: Raw,
    /// The display's number in decimal; empty for any.
    pub number: Raw,
    /// The protocol, mostly `MIT-MAGIC-COOKIE-1`.
    pub protocol: Raw,
}

/// Whether a process has what an X server may ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cookie {
    /// The file has an entry for its display.
    Listed,
    /// The file is there and has none for its display.
    NotListed,
    /// The file is not there, or the process may not read it.
    NoFile,
    /// It has no display that one could look up.
    NoDisplay,
}

/// The file a client of the carrier reads: `XAUTHORITY`, else `~/.Xauthority`.
pub fn file_of(carrier: &Carrier<'_>) -> Option<Vec<u8>> {
    match carrier.environ.bytes("XAUTHORITY") {
        Some(file) => Some(file.to_vec()),
        None => Some([carrier.environ.bytes("HOME").filter(|home| !home.is_empty())?, b"/.Xauthority"].concat()),
    }
}

/// Whether the carrier's authority file has a cookie for its display.
///
/// # Errors
/// When the file cannot be looked at from here.
pub fn cookie(carrier: &Carrier<'_>) -> Fact<Cookie> {
    let Some(display) = carrier.environ.bytes("DISPLAY").and_then(Display::parse) else { return Ok(Cookie::NoDisplay) };
    let Some(file) = file_of(carrier) else { return Ok(Cookie::NoFile) };
    match carrier.host.document(carrier.view, &file, entries) {
        Ok(document) if shut(carrier, &file, Some(&document.stat))?.is_some() => Ok(Cookie::NoFile),
        Ok(document) => {
            let entries = document.content.map_err(Unknown::Malformed)?;
            Ok(if entries.iter().any(|entry| fits(carrier, entry, &display)) { Cookie::Listed } else { Cookie::NotListed })
        }
        Err(unknown) if unknown.is_absence() => Ok(Cookie::NoFile),
        Err(unknown) => Err(unknown),
    }
}

/// `XAUTHORITY`. The empty string is not unset: clients then read no file at all.
pub(super) fn examine(carrier: &Carrier<'_>, value: &[u8]) -> Named {
    if value.is_empty() {
        return Named::new(State::Dangling, "set to the empty string: clients read no cookie file, not even ~/.Xauthority");
    }
    let shown = carrier.seen_at(value);
    if !value.starts_with(b"/") {
        return Named::new(State::Unknown, "a relative path: it means another place in every directory");
    }
    let document = match carrier.host.document(carrier.view, value, entries) {
        Ok(document) => document,
        Err(unknown) if unknown.is_absence() => {
            return Named::new(State::Dangling, "the file is gone").with([carrier.saw(shown, "no such file")]);
        }
        Err(unknown) => {
            let named = match shut(carrier, value, None) {
                Ok(Some(why)) => Named::new(State::Rejected, why),
                _ => Named::unknown(&shown, &unknown),
            };
            return named.with([carrier.saw(&shown, unknown.to_string())]);
        }
    };
    let seen = carrier.saw(&shown, socket::described(&document.stat));
    match shut(carrier, value, Some(&document.stat)) {
        Ok(None) => {}
        Ok(Some(why)) => return Named::new(State::Rejected, why).with([seen]),
        Err(unknown) => return Named::unknown("whether this process may read it", &unknown).with([seen]),
    }
    let entries = match document.content {
        Ok(entries) => entries,
        Err(why) => return Named::new(State::Unknown, why).with([seen]),
    };
    let listed = carrier.saw(&shown, format!("{} entries; the cookies were not kept", entries.len()));
    let named = Named::new(State::Alive, "the file is there").with([seen, listed]);
    let Some(display) = carrier.environ.bytes("DISPLAY").and_then(Display::parse) else { return named };
    if entries.iter().any(|entry| fits(carrier, entry, &display)) {
        let mut named = named;
        named.liveness.detail = format!("the file has a cookie for display {}", display.number);
        return named;
    }
    let mut named = named.note("A server that asks for a cookie turns this process away.");
    named.liveness.detail = format!("the file is there and has no cookie for display {}", display.number);
    named
}

const MAY_NOT: &str = "may not read it";

/// What certainly keeps the carrier from the file, which `stat` is of where it was read.
fn shut(carrier: &Carrier<'_>, file: &[u8], stat: Option<&PathFact>) -> Fact<Option<String>> {
    let own = || {
        let stat = stat.filter(|stat| carrier.process.is_some_and(|own| User::of(carrier.host, own).may(stat, READ) == Allowed::No))?;
        Some((file.to_vec(), stat.clone()))
    };
    let barrier = match own() {
        Some(barrier) => Some(barrier),
        None => access::kept_out(carrier, file, READ)?,
    };
    Ok(barrier.map(|barrier| access::in_words(carrier, file, &barrier, MAY_NOT)))
}

/// Whether the carrier is kept from the cookies that it would show to its display.
pub(super) fn is_shut(carrier: &Carrier<'_>, file: &[u8]) -> bool {
    !matches!(access::kept_out(carrier, file, READ), Ok(None))
}

fn fits(carrier: &Carrier<'_>, entry: &Entry, display: &Display) -> bool {
    let record = xauth::Record {
        family: entry.family,
        address: entry.address.as_bytes(),
        number: entry.number.as_bytes(),
        protocol: entry.protocol.as_bytes(),
        data: b"",
    };
    let hostname = carrier.host.machine().hostname.as_bytes();
    let own = || record.fits(hostname, None, display.number);
    match &display.way {
        Way::Local | Way::Path(_) => own(),
        Way::Tcp(host) => match address::locate(carrier, host) {
            // A loopback address counts as this host itself.
            Where::Here(ips) => own() || ips.iter().any(|ip| record.fits(hostname, Some(*ip), display.number)),
            // Which address the name has is not resolved: any entry of that number may be meant.
            Where::ByName | Where::Elsewhere => {
                own()
                    || (matches!(entry.family, xauth::INTERNET | xauth::INTERNET6)
                        && record.number == display.number.to_string().as_bytes())
            }
        },
    }
}

/// Parses the file and leaves the cookies behind.
fn entries(bytes: &[u8]) -> Result<Vec<Entry>, String> {
    let (records, whole) = xauth::records(bytes);
    if records.is_empty() && !whole {
        return Err("it is no X authority file".to_owned());
    }
    let entry = |record: &xauth::Record<'_>| Entry {
        family: record.family,
        address: Raw::from(record.address),
        number: Raw::from(record.number),
        protocol: Raw::from(record.protocol),
    };
    Ok(records.iter().map(entry).collect())
}
