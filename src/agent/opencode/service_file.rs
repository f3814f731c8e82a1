//! The two files of the background service: the registration, which clients find it by, and its config.
//!
//! `<state>/opencode/service.json` (`service-<channel>.json`): one JSON line `{"id","version","url","pid","password"}`,
//! mode 0600, no newline at its end (next-16350). Only `url` and `pid` are sure to be there. It is never written by us:
//! the daemon re-reads it every 5 s and ends when it is missing or someone else's.
//! `<config>/opencode/service.json`: `disabled?, remote?, hostname?, port?, password?, cors?, env?{…}` (the preview has
//! no `env`). Passwords and values are dropped while parsing.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::host::files::Document;
use crate::host::http::Password;
use crate::host::{Environ, Fact, Host, Pid, Raw, View};
use crate::redact;

/// What a registration file says, the password left out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Registered {
    /// Id of this start of the service.
    pub id: Option<String>,
    /// The service's version.
    pub version: Option<String>,
    /// Where it listens: scheme, host and port. Whatever else a URL has may be a secret.
    pub url: String,
    /// The service's process.
    pub pid: Pid,
    /// A password is in the file.
    pub has_password: bool,
}

/// What a service's config file says, values left out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServiceConfig {
    /// Clients start no service, but a private server each.
    pub disabled: bool,
    /// Address to listen on.
    pub hostname: Option<String>,
    /// Port to listen on.
    pub port: Option<u16>,
    /// Names of the variables that are laid over the starter's environment at the next start.
    pub env: Vec<String>,
}

/// The directories in which an OpenCode with this environment keeps its files.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Roots {
    /// `$XDG_STATE_HOME/opencode`, else `~/.local/state/opencode`.
    pub state: Raw,
    /// `$OPENCODE_CONFIG_DIR`, else `$XDG_CONFIG_HOME/opencode`, else `~/.config/opencode`.
    pub config: Raw,
    /// Whose files they should be.
    pub uid: u32,
    /// From where the paths are seen.
    pub view: View,
}

impl Roots {
    /// The directories for this environment; an empty variable counts as unset. None without a home.
    pub fn of(environ: &Environ, uid: u32, view: View) -> Option<Roots> {
        let filled = |name: &str| environ.bytes(name).filter(|value| !value.is_empty());
        let xdg = |name: &str, below_home: &[u8]| {
            let root = filled(name).map(<[u8]>::to_vec).or_else(|| Some([filled("HOME")?, below_home].concat()))?;
            Some(Raw([&root[..], b"/opencode"].concat()))
        };
        let config = filled("OPENCODE_CONFIG_DIR").map(Raw::from).or_else(|| xdg("XDG_CONFIG_HOME", b"/.config"));
        Some(Roots { state: xdg("XDG_STATE_HOME", b"/.local/state")?, config: config?, uid, view })
    }
}

/// The service files in a directory: `service.json` and those of other channels.
pub(super) fn service_files(host: &Host, view: View, dir: &Raw) -> Fact<Vec<Raw>> {
    let names = host.listing(view, dir.as_bytes())?;
    let is_one = |name: &&Raw| {
        let middle = name.as_bytes().strip_prefix(b"service").and_then(|rest| rest.strip_suffix(b".json"));
        middle.is_some_and(|middle| middle.is_empty() || middle.starts_with(b"-"))
    };
    Ok(names.iter().filter(is_one).map(|name| Raw([dir.as_bytes(), b"/", name.as_bytes()].concat())).collect())
}

/// The config files of the services with these roots, by path.
///
/// # Errors
/// When the directory cannot be listed.
pub fn service_configs(host: &Host, roots: &Roots) -> Fact<Vec<(Raw, Fact<Document<ServiceConfig>>)>> {
    let paths = service_files(host, roots.view, &roots.config)?;
    Ok(paths
        .into_iter()
        .map(|path| {
            let document = host.document(roots.view, path.as_bytes(), parse_config);
            (path, document)
        })
        .collect())
}

fn object(bytes: &[u8]) -> Result<serde_json::Map<String, serde_json::Value>, String> {
    if bytes.iter().all(u8::is_ascii_whitespace) {
        return Err("it is empty".to_owned());
    }
    // The parser's own message may quote what it stumbled on, and that may be the password.
    match serde_json::from_slice(bytes) {
        Ok(serde_json::Value::Object(object)) => Ok(object),
        Ok(_) => Err("it is no JSON object".to_owned()),
        Err(error) if error.is_eof() => Err("it breaks off in the middle: it is only half written".to_owned()),
        Err(error) => Err(format!("it is no JSON (line {}, column {})", error.line(), error.column())),
    }
}

/// Parses a registration file.
///
/// # Errors
/// When it is half written, is no JSON, or lacks what every registration has. The message quotes nothing of the file.
pub fn parse_registered(bytes: &[u8]) -> Result<Registered, String> {
    let object = object(bytes)?;
    let text = |key: &str| object.get(key).and_then(serde_json::Value::as_str).map(str::to_owned);
    let sound = |key: &str, random: bool| text(key).filter(|text| redact::secret(b"", text.as_bytes(), random).is_none());
    let pid = object.get("pid").and_then(serde_json::Value::as_u64).and_then(|pid| Pid::try_from(pid).ok()).filter(|pid| *pid > 0);
    Ok(Registered {
        id: sound("id", true),
        version: sound("version", false),
        url: address_of(&text("url").ok_or("it has no url")?),
        pid: pid.ok_or("it has no pid")?,
        has_password: object.get("password").is_some_and(|password| !password.is_null()),
    })
}

/// The password in a registration file, for a probe that asks the daemon; none where there is none, or no such file.
pub fn parse_password(bytes: &[u8]) -> Option<Password> {
    object(bytes).ok()?.get("password")?.as_str().map(Password::new)
}

/// Parses a config file of a service.
///
/// # Errors
/// When it is no JSON object. The message quotes nothing of the file.
pub fn parse_config(bytes: &[u8]) -> Result<ServiceConfig, String> {
    let object = object(bytes)?;
    let env = object.get("env").and_then(serde_json::Value::as_object);
    Ok(ServiceConfig {
        disabled: object.get("disabled").and_then(serde_json::Value::as_bool).unwrap_or(false),
        hostname: object.get("hostname").and_then(serde_json::Value::as_str).map(str::to_owned),
        port: object.get("port").and_then(serde_json::Value::as_u64).and_then(|port| u16::try_from(port).ok()),
        env: env.map(|env| env.keys().cloned().collect()).unwrap_or_default(),
    })
}

fn address_of(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return NO_URL.to_owned() };
    let authority = &rest[..rest.find(['/', '?', '#']).unwrap_or(rest.len())];
    // A password may hold a bare `/`: what looks like a port has to be one.
    let place = authority.rfind('@').map_or(authority, |at| &authority[at + 1..]);
    let port = place.rsplit_once(':').filter(|(host, _)| host.is_empty() || !host.contains(':') || host.ends_with(']'));
    let sound = port.is_none_or(|(_, port)| port.bytes().all(|byte| byte.is_ascii_digit())) && !rest[authority.len()..].contains('@');
    let url = format!("{scheme}://{place}");
    if sound && redact::secret(b"", url.as_bytes(), false).is_none() { url } else { NO_URL.to_owned() }
}

/// What is told of a URL that has no address to tell.
const NO_URL: &str = "a url that names no address";

/// Address and port of a URL; none where the host is a name other than localhost, which no table shows.
pub fn endpoint(url: &str) -> Option<(IpAddr, u16)> {
    let (scheme, rest) = url.split_once("://")?;
    let authority = &rest[..rest.find(['/', '?', '#']).unwrap_or(rest.len())];
    let (name, port) = match authority.strip_prefix('[') {
        Some(six) => six.split_once(']').map(|(name, rest)| (name, rest.strip_prefix(':')))?,
        None => authority.rsplit_once(':').map_or((authority, None), |(name, port)| (name, Some(port))),
    };
    let port = match port {
        Some(port) => port.parse().ok()?,
        None if scheme == "http" => 80,
        None => 443,
    };
    let ip = if name == "localhost" { IpAddr::from([127, 0, 0, 1]) } else { name.parse().ok()? };
    Some((ip, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As next-16350 writes it.
    const LINE: &[u8] = br#"{"id":"0b1c9f1e-0000-4000-8000-000000000001","version":"0.0.0-next-16350","url":"http://127.0.0.1:49374","pid":4242,"password":"canary-password"}"#;

    #[test]
    fn everything_but_the_password_is_kept() {
        let registered = parse_registered(LINE).unwrap();
        assert_eq!(
            registered,
            Registered {
                id: Some("0b1c9f1e-0000-4000-8000-000000000001".to_owned()),
                version: Some("0.0.0-next-16350".to_owned()),
                url: "http://127.0.0.1:49374".to_owned(),
                pid: 4242,
                has_password: true,
            }
        );
        let url = |url: &str| {
            let minimal = parse_registered(format!(r#"{{"url":"{url}","pid":1}}"#).as_bytes()).unwrap();
            assert!(!minimal.has_password);
            minimal.url
        };
        assert_eq!(url("http://u:canary@127.0.0.1:1/canary"), "http://127.0.0.1:1");
        assert_eq!(url("http://127.0.0.1:4096/?token=canary&q=canary#canary"), "http://127.0.0.1:4096");
        assert_eq!(url("https://[::1]:4096/canary"), "https://[::1]:4096");
        for odd in
            ["http://u:can/ary@127.0.0.1:1", "canary", "http://127.0.0.1:canary", "http://ghp_0123456789abcdefghijABCDEFGHIJ012345:1"]
        {
            assert_eq!(url(odd), "a url that names no address");
        }
    }

    #[test]
    fn a_broken_file_is_explained_without_quoting_it() {
        assert_eq!(parse_registered(&LINE[..LINE.len() - 8]), Err("it breaks off in the middle: it is only half written".to_owned()));
        assert_eq!(parse_registered(b""), Err("it is empty".to_owned()));
        assert_eq!(parse_registered(b"[1]"), Err("it is no JSON object".to_owned()));
        assert_eq!(parse_registered(br#"{"url":"http://x","pid":"canary"}"#), Err("it has no pid".to_owned()));
        assert_eq!(parse_registered(br#"{"pid":1}"#), Err("it has no url".to_owned()));
        assert_eq!(parse_registered(b"canary"), Err("it is no JSON (line 1, column 1)".to_owned()));
    }

    #[test]
    fn a_config_gives_up_names_and_no_values() {
        let config = parse_config(br#"{"port":49380,"password":"canary","env":{"DISPLAY":"canary","X":"y"},"cors":[]}"#).unwrap();
        assert_eq!(config.env, ["DISPLAY", "X"]);
        assert_eq!((config.port, config.disabled), (Some(49380), false));
        assert!(!format!("{config:?}").contains("canary"));
    }

    #[test]
    fn endpoints_of_urls() {
        let at = |ip: &str, port| Some((ip.parse().unwrap(), port));
        assert_eq!(endpoint("http://127.0.0.1:49374"), at("127.0.0.1", 49374));
        assert_eq!(endpoint("http://localhost:4096/"), at("127.0.0.1", 4096));
        assert_eq!(endpoint("http://[::1]:4096/x"), at("::1", 4096));
        assert_eq!(endpoint("https://10.0.0.1"), at("10.0.0.1", 443));
        assert_eq!(endpoint("http://host.example:80"), None);
        assert_eq!(endpoint("unix"), None);
    }

    #[test]
    fn an_empty_variable_counts_as_unset() {
        let roots = |block: &[u8]| Roots::of(&Environ::parse(block), 1000, View::OURS).map(|roots| (roots.state.0, roots.config.0));
        assert_eq!(
            roots(b"HOME=/home/u\0XDG_STATE_HOME=\0"),
            Some((b"/home/u/.local/state/opencode".to_vec(), b"/home/u/.config/opencode".to_vec()))
        );
        assert_eq!(
            roots(b"XDG_STATE_HOME=/s\0XDG_CONFIG_HOME=/c\0OPENCODE_CONFIG_DIR=/own\0"),
            Some((b"/s/opencode".to_vec(), b"/own".to_vec()))
        );
        assert_eq!(roots(b"PATH=/bin\0"), None);
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..200)) {
            let _ = parse_registered(&bytes);
            let _ = parse_config(&bytes);
        }

        #[test]
        fn no_cut_or_change_lets_the_password_out(at in 0..LINE.len(), byte: u8, cut in 0..LINE.len()) {
            let mut bytes = LINE.to_vec();
            bytes[at] = byte;
            for bytes in [&bytes[..], &bytes[..cut]] {
                if !String::from_utf8_lossy(bytes).contains(r#""password":"canary"#) {
                    continue;
                }
                let shown = format!("{:?}", parse_registered(bytes));
                proptest::prop_assert!(!shown.contains("canary"), "{shown}");
            }
        }

        #[test]
        fn no_url_panics(url in ".{0,60}") {
            let _ = endpoint(&url);
            let _ = address_of(&url);
        }
    }
}
