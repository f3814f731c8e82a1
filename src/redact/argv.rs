//! Arguments: shown if they are of a kind that holds no secret, else masked.
//!
//! A canary under an innocent name may stand anywhere, so this is a list of what may be shown: the program,
//! names of options, paths, short lower-case words, numbers and loopback addresses.
//!
//! What stands behind a word that announces a secret is masked, whatever it looks like: behind an option or word of a secret's
//! name (`--pin 1234`, `--key=word`, `-pass word`, `set token word`), with or without `=`. A few short options announce a secret in
//! one program and something harmless in another ([`DOUBTFUL`]: `-k word` is openssl's key and curl's harmless switch, `-p word` a
//! password or a port). Behind those only a path is shown, and another option, since a switch has no value; and behind `-p` a number
//! where the program is known for it ([`NUMBERED`]).

use super::{Redactor, Rule, entropy, names::secret_name, shapes};
use crate::host::Value;

/// Letters of options that take a secret in common programs: `redis-cli -a`, `openssl enc -k` and `-K`, `mysql -p`, `zip -P`,
/// `ldapsearch -w`. They count also as the last of several letters (`-xp`).
const DOUBTFUL: &[u8] = b"akKpPw";

/// Options of one dash and more letters that begin with a doubtful letter: any other may be `-pPASSWORD`.
const WHOLE: [&[u8]; 17] = [
    b"-ac",
    b"-args",
    b"-auth",
    b"-all",
    b"-addr",
    b"-agent",
    b"-keep",
    b"-kill",
    b"-port",
    b"-path",
    b"-pid",
    b"-profile",
    b"-print",
    b"-prefix",
    b"-wait",
    b"-width",
    b"-wr",
];

/// Programs whose `-p` takes the number of a port or of a process. Elsewhere it may be a password: `sshpass -p 1234`.
const NUMBERED: [&[u8]; 22] = [
    b"autossh",
    b"code-server",
    b"gdb",
    b"htop",
    b"lsof",
    b"ltrace",
    b"nc",
    b"ncat",
    b"netcat",
    b"opencode",
    b"opencode2",
    b".opencode",
    b"perf",
    b"pidstat",
    b"ps",
    b"py-spy",
    b"ssh",
    b"sshd",
    b"strace",
    b"taskset",
    b"top",
    b"zeroclaw",
];

/// Programs whose first argument is the program that is meant.
const INTERPRETERS: [&[u8]; 4] = [b"bun", b"deno", b"node", b"python3"];

/// What joins commands in a script, and redirects them.
const OPERATORS: [&[u8]; 12] = [b"&&", b"||", b"|", b";", b"&", b">", b">>", b"<", b"2>&1", b"2>", b"{", b"}"];

type Verdict = Result<(), Rule>;

/// What the word before says about the next one.
#[derive(Default)]
struct Before {
    /// It is a secret.
    secret: bool,
    /// It may be one.
    doubtful: bool,
}

impl Before {
    /// Why what comes next is not shown.
    fn rule(&self) -> Rule {
        if self.secret { Rule::SecretName } else { Rule::Argv }
    }
}

impl Redactor {
    /// The arguments with those that may not be shown masked whole.
    pub fn arguments(&self, argv: &[Value]) -> Vec<Value> {
        if self.show.all {
            return argv.to_vec();
        }
        let mut before = Before::default();
        let program = |at: usize| argv.get(at).and_then(Value::clear).map(base).unwrap_or_default();
        let numbered = NUMBERED.contains(&program(if INTERPRETERS.contains(&program(0)) { 1 } else { 0 }));
        let each = argv.iter().enumerate().map(|(at, value)| {
            let Value::Clear(raw) = value else {
                before = Before::default();
                return value.clone();
            };
            let bytes = raw.as_bytes();
            if numbered && at > 1 && argv[at - 1].clear() == Some(b"-p") && port_or_pid(bytes) {
                before = Before::default();
            }
            let verdict = if at == 0 { self.program(bytes) } else { self.argument(bytes, &mut before) };
            match verdict {
                Ok(()) => value.clone(),
                Err(rule) => Value::Masked(self.masked(bytes, rule)),
            }
        });
        each.collect()
    }

    /// The first argument: the program, or the title that it gave itself.
    fn program(&self, bytes: &[u8]) -> Verdict {
        let mut words = words(bytes);
        let first = words.next().unwrap_or_default();
        if first.len() == bytes.len() {
            return program_name(bytes);
        }
        let title = first.strip_suffix(b":").unwrap_or(first);
        program_name(title)?;
        let login = matches!(title, b"sshd" | b"sshd-session" | b"sshd-auth");
        let mut before = Before::default();
        for (at, word) in words.enumerate() {
            let titled = login && (at == 0 && account(word) || on_a_tty(word)) || short_word(trimmed(word)) || range(word);
            if before.secret || before.doubtful || secret_name(word) || !titled {
                self.word(word, &mut before)?;
            }
        }
        Ok(())
    }

    /// Any other argument: one word, or a script of which every word may be shown.
    fn argument(&self, bytes: &[u8], before: &mut Before) -> Verdict {
        if !bytes.iter().any(u8::is_ascii_whitespace) {
            return self.word(bytes, before);
        }
        let announced = std::mem::take(before);
        if announced.secret || announced.doubtful {
            return Err(announced.rule());
        }
        if shapes::secret(bytes) {
            return Err(Rule::SecretShape);
        }
        let mut inside = Before::default();
        words(bytes).try_for_each(|word| {
            if OPERATORS.contains(&word) { Ok(()) } else { self.word(word.strip_suffix(b";").unwrap_or(word), &mut inside) }
        })
    }

    fn word(&self, word: &[u8], before: &mut Before) -> Verdict {
        let announced = std::mem::take(before);
        if announced.secret || announced.doubtful && !word.starts_with(b"-") && !path(word) {
            return Err(announced.rule());
        }
        if word.is_empty() || word == b"-" || word == b"--" {
            return Ok(());
        }
        if word[0] == b'-' {
            return self.option(word, before);
        }
        // `config set token VALUE`
        before.secret = short_word(word) && secret_name(word);
        self.operand(word)
    }

    fn option(&self, word: &[u8], before: &mut Before) -> Verdict {
        let (name, value) = match memchr::memchr(b'=', word) {
            Some(at) => (&word[..at], Some(&word[at + 1..])),
            None => (word, None),
        };
        let bare = name.strip_prefix(b"--").unwrap_or(&name[1..]);
        // A file with a secret in it is none; X servers call theirs `-auth`.
        let names_a_file = [&b"file"[..], b"path", b"dir"].iter().any(|end| bare.ends_with(end)) || name == b"-auth";
        let secret = secret_name(bare) && !names_a_file;
        let letters = !name.starts_with(b"--") && made_of(bare, 3, b"") && bare.iter().all(u8::is_ascii_alphabetic);
        let doubtful = letters && bare.last().is_some_and(|last| DOUBTFUL.contains(last)) && !WHOLE.contains(&name);
        // Also where the option itself may not be shown.
        *before = Before { secret: secret && value.is_none(), doubtful: doubtful && value.is_none() };
        if value.is_some_and(|value| !value.is_empty() && (secret || doubtful && !path(value))) {
            return Err(Before { secret, doubtful }.rule());
        }
        if shapes::secret(word) {
            return Err(Rule::SecretShape);
        }
        if !option_name(name) {
            return Err(if entropy::random_text(name) { Rule::Entropy } else { Rule::Argv });
        }
        value.filter(|value| !value.is_empty()).map_or(Ok(()), |value| self.operand(value))
    }

    fn operand(&self, word: &[u8]) -> Verdict {
        if let Some((name, value)) = assignment(word) {
            return self.rule(name, value).map_or(Ok(()), Err);
        }
        if shapes::secret(word) {
            return Err(Rule::SecretShape);
        }
        let shown = short_word(word) || number(word) || path(word) || loopback(word) || file_name(word);
        if shown {
            return Ok(());
        }
        Err(if entropy::random_text(word) { Rule::Entropy } else { Rule::Argv })
    }
}

fn base(word: &[u8]) -> &[u8] {
    word.rsplit(|&byte| byte == b'/').next().unwrap_or_default()
}

fn port_or_pid(word: &[u8]) -> bool {
    digits(word, 7) && word[0] != b'0'
}

fn words(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    bytes.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty())
}

/// Without the brackets and commas that titles put around words.
fn trimmed(word: &[u8]) -> &[u8] {
    let word = word.strip_suffix(b",").unwrap_or(word);
    let inner = |open: &[u8], close: &[u8]| word.strip_prefix(open)?.strip_suffix(close);
    inner(b"[", b"]").or_else(|| inner(b"(", b")")).unwrap_or(word)
}

fn made_of(word: &[u8], most: usize, others: &[u8]) -> bool {
    !word.is_empty() && word.len() <= most && word.iter().all(|byte| byte.is_ascii_alphanumeric() || others.contains(byte))
}

fn program_name(name: &[u8]) -> Verdict {
    if path(name) {
        return Ok(());
    }
    // `-bash` is a login shell, `(sd-pam)` a child that has no program file of its own.
    let bare = trimmed(name.strip_prefix(b"-").unwrap_or(name));
    if shapes::secret(bare) {
        return Err(Rule::SecretShape);
    }
    if entropy::random_text(bare) {
        return Err(Rule::Entropy);
    }
    if bare.is_empty() || made_of(bare, 64, b"._+-/") { Ok(()) } else { Err(Rule::Argv) }
}

fn option_name(name: &[u8]) -> bool {
    match name.strip_prefix(b"--") {
        Some(long) => {
            // Options are words; small letters, capitals and digits all in one long name are a key's way.
            let kinds = [u8::is_ascii_lowercase, u8::is_ascii_uppercase, u8::is_ascii_digit];
            let key = long.len() >= 16 && kinds.iter().all(|kind| long.iter().any(kind));
            made_of(long, 40, b"-_.") && long[0].is_ascii_alphanumeric() && !key && !entropy::random_text(long)
        }
        None => {
            let short = &name[1..];
            let word = made_of(short, 16, b"-") && short.iter().all(|byte| byte.is_ascii_lowercase() || *byte == b'-');
            let letters = made_of(short, 3, b"") && short.iter().all(u8::is_ascii_alphabetic);
            let numbered = short.split_first().is_some_and(|(first, rest)| first.is_ascii_alphanumeric() && digits(rest, 6));
            let password =
                |most: usize| short.len() > most && DOUBTFUL.contains(&short[0]) && !WHOLE.contains(&name) && !secret_name(short);
            (word && !password(3)) || letters || (numbered && !password(1)) || (short.len() == 1 && short[0].is_ascii_graphic())
        }
    }
}

fn digits(text: &[u8], most: usize) -> bool {
    !text.is_empty() && text.len() <= most && text.iter().all(u8::is_ascii_digit)
}

/// `serve`, `new-session`, `wayland-1`.
fn short_word(word: &[u8]) -> bool {
    let (stem, number) = match memchr::memrchr(b'-', word) {
        Some(at) if digits(&word[at + 1..], 2) => (&word[..at], true),
        _ => (word, false),
    };
    let most = if number { 12 } else { 14 };
    stem.first().is_some_and(u8::is_ascii_lowercase)
        && stem.len() <= most
        && stem.iter().all(|byte| byte.is_ascii_lowercase() || *byte == b'-')
}

/// `4096`, `1.5`, `30s`, `512M`.
fn number(word: &[u8]) -> bool {
    let body = match word.split_last() {
        Some((unit, body)) if b"smhdkKMGT%".contains(unit) => body,
        _ => word,
    };
    match memchr::memchr(b'.', body) {
        Some(at) => digits(&body[..at], 7) && digits(&body[at + 1..], 4),
        None => digits(body, 7),
    }
}

/// `0`, `10-100` in the title of a server.
fn range(word: &[u8]) -> bool {
    word.split(|&byte| byte == b'-').all(|part| digits(part, 5))
}

fn path(word: &[u8]) -> bool {
    let word = word.strip_prefix(b"unix:").map_or(word, |rest| rest.strip_prefix(b"//").unwrap_or(rest));
    let rooted = matches!(word, b"." | b".." | b"~") || entropy::is_path(word);
    // A colon joins paths. Behind any other stands something else than a path: `/p:PASSWORD`, `/bot123456:TOKEN/sendMessage`.
    let joined = memchr::memchr_iter(b':', word).all(|at| entropy::is_path(&word[at + 1..]) && word[1..at].contains(&b'/'));
    rooted && joined && made_of(word, 4096, b"/._@+,:~-") && !entropy::random_argument_path(word) && !shapes::secret(word)
}

/// `server.js`, `headless-backend.so`.
fn file_name(word: &[u8]) -> bool {
    let Some(at) = memchr::memrchr(b'.', word) else { return false };
    let (stem, end) = (&word[..at], &word[at + 1..]);
    let letters = |text: &[u8], most: usize| {
        !text.is_empty() && text.len() <= most && text.iter().all(|byte| byte.is_ascii_lowercase() || b"-_".contains(byte))
    };
    letters(stem, 18) && letters(end, 5)
}

/// A loopback or unspecified address with port, display or path, also as a URL; `:10.0` too.
fn loopback(word: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(word) else { return false };
    let rest = match text.split_once("://") {
        Some((scheme, rest)) if ["http", "https", "ws", "wss", "tcp"].contains(&scheme) => rest,
        Some(_) => return false,
        None => text,
    };
    let (place, way) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    if !way.is_empty() && !path(way.as_bytes()) {
        return false;
    }
    let (host, port) = match place.strip_prefix('[') {
        Some(inner) => match inner.split_once(']') {
            Some((host, after)) => (host, after.strip_prefix(':').unwrap_or(after)),
            None => return false,
        },
        None if place == "::1" || place == "::" => (place, ""),
        None => place.rsplit_once(':').unwrap_or((place, "")),
    };
    let local = host == "localhost"
        || (host.is_empty() && !port.is_empty())
        || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback() || ip.is_unspecified());
    local && (port.is_empty() || number(port.as_bytes()))
}

/// `NAME=value`.
fn assignment(word: &[u8]) -> Option<(&[u8], &[u8])> {
    let at = memchr::memchr(b'=', word)?;
    let name = &word[..at];
    (made_of(name, 128, b"_") && !name[0].is_ascii_digit()).then_some((name, &word[at + 1..]))
}

/// A login name in the title of sshd.
fn account(word: &[u8]) -> bool {
    made_of(word, 32, b"._-") && !entropy::random_text(word)
}

/// `alice@pts/0`, `alice@notty` in the title of sshd.
fn on_a_tty(word: &[u8]) -> bool {
    let Some(at) = memchr::memrchr(b'@', word) else { return false };
    let tty = &word[at + 1..];
    let terminal = tty == b"notty" || tty.strip_prefix(b"pts/").or_else(|| tty.strip_prefix(b"tty")).is_some_and(|rest| digits(rest, 5));
    account(&word[..at]) && terminal
}
