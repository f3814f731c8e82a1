//! Secrets by looking random. The measure is made for short strings: how often the kind of character
//! changes, and how long a run goes on without a separator. Words and versions score low, keys high.

/// Whether a value holds something random. Paths are judged part by part and more leniently: they hold
/// commit hashes, UUIDs and names of temporary directories. An identifier is random by nature.
pub(super) fn random_value(value: &[u8], identifier: bool) -> bool {
    let mut from = 0;
    let mut key: &[u8] = b"";
    loop {
        let rest = &value[from..];
        let end = rest.iter().position(|byte| byte.is_ascii_whitespace() || b":,;='\"".contains(byte)).unwrap_or(rest.len());
        let part = &rest[..end];
        // A bus address carries the bus's own id, which is no secret.
        let bus_id = key == b"guid" && part.len() == 32 && part.iter().all(u8::is_ascii_hexdigit);
        let random = if is_path(part) { random_path(part, LENIENT) } else { !identifier && !bus_id && random_text(part) };
        if random {
            return true;
        }
        let Some(separator) = rest.get(end) else { return false };
        key = if *separator == b'=' { part } else { b"" };
        from += end + 1;
    }
}

/// Whether a value has the form of the identifiers that programs hand to their children.
pub(super) fn is_identifier(value: &[u8]) -> bool {
    value.len() <= 80 && value.iter().all(|byte| byte.is_ascii_alphanumeric() || b"_-.:".contains(byte))
}

/// Whether a name looks random: base64 lines of a file that was taken for assignments do.
pub(super) fn random_name(name: &[u8]) -> bool {
    // Names are words in one case most of the time; nothing there changes from character to character.
    tokens(name).any(|token| Measure::of(token).mixed(20))
}

/// Whether an argument that is no path looks random.
pub(super) fn random_text(text: &[u8]) -> bool {
    tokens(text).any(|token| {
        let measure = Measure::of(token);
        measure.run >= 20 || measure.mixed(16) || measure.hexadecimal(16)
    })
}

/// How many characters a part of a path must have to be looked at, in a value and in an argument.
const LENIENT: usize = 26;
const STRICT: usize = 16;

/// Whether an argument that is a path holds a part that looks random, or is none: base64 may begin with a slash too, and
/// others may stand in it. Then no part of it is a word.
pub(super) fn random_argument_path(path: &[u8]) -> bool {
    random_path(path, STRICT) || slashed_key(path)
}

fn slashed_key(path: &[u8]) -> bool {
    let parts = || path.split(|&byte| byte == b'/').filter(|part| !part.is_empty());
    let is_word = |part: &[u8]| part.iter().all(|byte| byte.is_ascii_lowercase() || b"._-".contains(byte));
    let of_base64 = |part: &[u8]| part.iter().all(|byte| byte.is_ascii_alphanumeric() || b"+=".contains(byte));
    // Names in capitals and with numbers make paths too: what tells is how often the kind of character changes inside a part.
    let measures = || parts().map(Measure::of);
    let (length, changes) = measures().fold((0, 0), |(length, changes), part| (length + part.length, changes + part.changes));
    let mixed = length >= STRICT && changes >= 4 && changes * 4 >= length;
    mixed && parts().all(of_base64) && !parts().any(|part| part.len() > 2 && is_word(part))
}

pub(super) fn is_path(text: &[u8]) -> bool {
    [&b"/"[..], b"./", b"../", b"~/", b"@/"].iter().any(|start| text.starts_with(start))
}

fn random_path(path: &[u8], least: usize) -> bool {
    let parts: Vec<&[u8]> = path.split(|&byte| byte == b'/').filter(|part| !part.is_empty()).collect();
    let store = matches!(parts.as_slice(), [b"nix" | b"gnu", b"store", ..]);
    parts.iter().enumerate().any(|(at, part)| {
        // Nix and Guix name everything by a hash of its inputs.
        let by_hash = store && at == 2;
        !by_hash && tokens(part).any(|token| random_part(token, least))
    })
}

fn random_part(token: &[u8], least: usize) -> bool {
    // `Stable-<commit>` and UUIDs: what is left without the hexadecimal runs is looked at.
    let rest: Vec<u8> = token.split(|byte| b"-_".contains(byte)).filter(|piece| !is_hex(piece)).collect::<Vec<_>>().join(&b'-');
    Measure::of(&rest).mixed(least)
}

fn is_hex(piece: &[u8]) -> bool {
    piece.iter().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(byte))
        || piece.iter().all(|byte| byte.is_ascii_digit() || (b'A'..=b'F').contains(byte))
}

fn tokens(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|byte| !byte.is_ascii_alphanumeric() && !b"+/_=-".contains(byte))
}

#[derive(PartialEq, Eq, Clone, Copy)]
enum Sort {
    Digit,
    Lower,
    Upper,
}

/// What is counted in a token; separators inside it are passed over.
#[derive(Default)]
struct Measure {
    /// Letters and digits.
    length: usize,
    /// The longest run of them without a separator.
    run: usize,
    /// How often the sort changes from one to the next, a capital before a small letter not counted.
    changes: usize,
    letters: usize,
    digits: usize,
    /// Letters beyond f.
    beyond: usize,
}

impl Measure {
    fn of(token: &[u8]) -> Measure {
        let mut measure = Measure::default();
        let mut before: Option<Sort> = None;
        let mut run = 0;
        for byte in token {
            let sort = match byte {
                b'0'..=b'9' => Sort::Digit,
                b'a'..=b'z' => Sort::Lower,
                b'A'..=b'Z' => Sort::Upper,
                _ => {
                    run = 0;
                    continue;
                }
            };
            run += 1;
            measure.run = measure.run.max(run);
            measure.length += 1;
            measure.digits += usize::from(sort == Sort::Digit);
            measure.letters += usize::from(sort != Sort::Digit);
            measure.beyond += usize::from(byte.is_ascii_alphabetic() && !byte.is_ascii_hexdigit());
            let change = before.is_some_and(|before| before != sort && (before, sort) != (Sort::Upper, Sort::Lower));
            measure.changes += usize::from(change);
            before = Some(sort);
        }
        measure
    }

    fn mixed(&self, least: usize) -> bool {
        self.length >= least && self.changes >= 4 && self.changes * 6 >= self.length
    }

    fn hexadecimal(&self, least: usize) -> bool {
        // Dates and versions are digits with few letters.
        self.length >= least && self.beyond == 0 && self.digits > 0 && self.letters * 8 >= self.length
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn real_values_are_not_random() {
        let values = [
            "localhost:10.0",
            "/tmp/ssh-aB3dE5gH7jK9/agent.4242",
            "/home/u/.ssh/agent/s.aB3dE5gH7j.agent.K9lM1nO3pQ",
            "unix:path=/run/user/1000/bus,guid=7b1d2f0c9e8a4d5f6a7b8c9d0e1f2a3b",
            "unix:abstract=/tmp/dbus-aB3dE5gH7j,guid=7b1d2f0c9e8a4d5f6a7b8c9d0e1f2a3b",
            "/run/user/1000/vscode-ipc-3f2b8c1e-5d7a-4e9b-8c6d-1a2b3c4d5e6f.sock",
            "/home/u/.vscode-server/cli/servers/Stable-863d2581ecda6849923a2118d93a088b0745d9d6/server/bin/remote-cli:/usr/bin",
            "/nix/store/6w8dvx0r7n0g5z6a1k2b3c4d5f6g7h8j-bash-5.2-p15/bin:/usr/bin",
            "/home/u/.cache/uv/archive-v0/aB3dE5gH7jK9lM1nO3pQ/bin:/bin",
            "/run/user/1000/fnm_multishells/12345_1700000000000/bin",
            "/home/u/.npm/_npx/a1b2c3d4e5f60718/node_modules/.bin",
            "/tmp/tmux-1000/default,12345,0",
            "192.168.1.20 51234 192.168.1.1 22",
            "2001:db8:85a3::8a2e:370:7334 51234 2001:db8::1 22",
            "xterm-256color",
            "rxvt-unicode-256color",
            "20240203-110809-5046fc22",
            "3.5.0beta12",
            "en_US.UTF-8",
            "GNOME-Flashback:GNOME",
            "12345.pts-0.build-host-7",
            "local/box:@/tmp/.ICE-unix/1234,unix/box:/tmp/.ICE-unix/1234",
            "x86_64-unknown-linux-gnu",
            "/org/gnome/Terminal/screen/3f2b8c1e_5d7a_4e9b_8c6d_1a2b3c4d5e6f",
            "/root/.cargo/bin:/root/.pyenv/plugins/pyenv-virtualenv/shims:/usr/local/sbin",
        ];
        for value in values {
            assert!(!random_value(value.as_bytes(), false), "{value}");
        }
    }

    #[test]
    fn keys_and_tokens_are() {
        let values = [
            "7b1d2f0c9e8a4d5f6a7b8c9d0e1f2a3b",
            "3f2b8c1e-5d7a-4e9b-8c6d-1a2b3c4d5e6f",
            "aB3dE5gH7jK9lM1nO3pQ5r",
            "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
            "en_US.7b1d2f0c9e8a4d5f6a7b8c9d0e1f2a3b",
            "mfrggzdfmztwq2lknnwg23tpobyxe43u",
        ];
        for value in values {
            assert!(random_value(value.as_bytes(), false), "{value}");
        }
        assert!(!random_value(b"3f2b8c1e-5d7a-4e9b-8c6d-1a2b3c4d5e6f", true), "an identifier may be random");
        assert!(random_value(b"/x/aB3dE5gH7jK9lM1nO3pQ5rS7tU9v", true), "a path of random parts may not");
    }

    #[test]
    fn a_key_with_slashes_is_no_path() {
        // `openssl rand -base64 24`, until one began with a slash.
        for key in ["/mV8aZ1/Qk3xYt7R2/bN5cW9eL0dHs6f", "/R3xK9/dP2vL7qT5zW8/nB4mC1yH6j=="] {
            assert!(random_argument_path(key.as_bytes()), "{key}");
        }
        for path in
            ["/usr/lib/X11/R6", "/srv/MyProject2/Build7/Output3", "/A/B2/C3", "/dev/pts/12", "/Users/JohnDoe/IdeaProjects/App2Go", "/"]
        {
            assert!(!random_argument_path(path.as_bytes()), "{path}");
        }
    }

    #[test]
    fn names_are_words_and_base64_is_not() {
        for name in ["BASH_FUNC_module%%", "npm_config_user_agent", "CARGO_FEATURE_X86_64_SSE2", "__CFBundleIdentifier"] {
            assert!(!random_name(name.as_bytes()), "{name}");
        }
        assert!(random_name(b"MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7"));
    }
}
