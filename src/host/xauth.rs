//! The format of an X authority file: records of five fields, all numbers big-endian.
//!
//! ```text
//! family   2 bytes
//! address, number, protocol name, data: each 2 bytes of length, then so many bytes
//! ```

/// One record. It borrows the cookie, so it must not outlive the function that reads the file.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Record<'a> {
    /// What kind of address it is: see the constants.
    pub family: u16,
    /// The address: a host name, or the bytes of an IP address.
    pub address: &'a [u8],
    /// The display's number in decimal; empty for any.
    pub number: &'a [u8],
    /// The protocol, mostly `MIT-MAGIC-COOKIE-1`.
    pub protocol: &'a [u8],
    /// The secret.
    pub data: &'a [u8],
}

/// An IPv4 address.
pub const INTERNET: u16 = 0;
/// An IPv6 address.
pub const INTERNET6: u16 = 6;
/// This machine, by its host name.
pub const LOCAL: u16 = 256;
/// Any address.
pub const WILD: u16 = 65535;

impl Record<'_> {
    /// Whether it is for display `number`: of this machine called `hostname`, or at an address where one is given.
    pub fn fits(&self, hostname: &[u8], address: Option<std::net::IpAddr>, number: u16) -> bool {
        let numbered = self.number.is_empty() || self.number == number.to_string().as_bytes();
        let addressed = match (self.family, address) {
            (WILD, _) => true,
            (LOCAL, None) => self.address == hostname,
            (INTERNET, Some(std::net::IpAddr::V4(ip))) => self.address == ip.octets(),
            (INTERNET6, Some(std::net::IpAddr::V6(ip))) => self.address == ip.octets(),
            _ => false,
        };
        numbered && addressed
    }
}

/// The records of a file, up to the first that is cut off, and whether all of it was understood.
pub fn records(bytes: &[u8]) -> (Vec<Record<'_>>, bool) {
    let mut records = Vec::new();
    let mut rest = bytes;
    while !rest.is_empty() {
        match record(rest) {
            Some((record, behind)) => {
                records.push(record);
                rest = behind;
            }
            None => return (records, false),
        }
    }
    (records, true)
}

fn record(bytes: &[u8]) -> Option<(Record<'_>, &[u8])> {
    let (family, rest) = number(bytes)?;
    let (address, rest) = field(rest)?;
    let (display, rest) = field(rest)?;
    let (protocol, rest) = field(rest)?;
    let (data, rest) = field(rest)?;
    Some((Record { family, address, number: display, protocol, data }, rest))
}

fn number(bytes: &[u8]) -> Option<(u16, &[u8])> {
    let (first, rest) = bytes.split_first_chunk()?;
    Some((u16::from_be_bytes(*first), rest))
}

fn field(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = number(bytes)?;
    rest.split_at_checked(length.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What `xauth add unix:10 . 00112233445566778899aabbccddeeff` writes on a host called `vm`.
    const FILE: &[u8] =
        b"\x01\x00\x00\x02vm\x00\x0210\x00\x12MIT-MAGIC-COOKIE-1\x00\x10\x00\x11\x22\x33\x44\x55\x66\x77\x88\x99\xaa\xbb\xcc\xdd\xee\xff";

    #[test]
    fn a_record_is_for_one_display_of_one_host() {
        let (records, whole) = records(FILE);
        assert!(whole);
        let record = records[0];
        assert_eq!((record.family, record.protocol, record.data.len()), (LOCAL, &b"MIT-MAGIC-COOKIE-1"[..], 16));
        assert!(record.fits(b"vm", None, 10));
        assert!(!record.fits(b"vm", None, 11));
        assert!(!record.fits(b"other", None, 10));
        assert!(!record.fits(b"vm", Some("10.0.0.1".parse().unwrap()), 10));
    }

    #[test]
    fn what_is_cut_off_is_told_and_the_rest_kept() {
        let file = [FILE, &FILE[..30]].concat();
        let (records, whole) = records(&file);
        assert_eq!((records.len(), whole), (1, false));
    }

    proptest::proptest! {
        #[test]
        fn no_file_panics(file in proptest::collection::vec(proptest::num::u8::ANY, 0..300)) {
            let _ = records(&file);
        }
    }
}
