//! The screen on the user's desk: Xvfb, with a cookie.

use super::accounts::run;
use super::guard::{Proc, tied};
use super::look;
use super::need::{Needed, tool};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

#[derive(Debug)]
pub struct Display {
    server: Proc,
    /// `:77`
    pub name: String,
    /// The file with its cookie.
    pub authority: PathBuf,
}

impl Display {
    /// A screen on a free display, its files in `dir`.
    pub fn start(dir: &Path) -> Needed<Display> {
        let xvfb = tool("Xvfb", "xvfb")?;
        let xauth = tool("xauth", "xauth")?;
        let authority = dir.join("Xauthority");
        let cookie = super::http::hex(&super::http::random::<16>());
        // The server takes any cookie of its file, under whatever name; the client looks its own up by name, below.
        run(Command::new(&xauth).arg("-q").arg("-f").arg(&authority).args(["add", ":0", "MIT-MAGIC-COOKIE-1", &cookie]));
        let mut server = Proc::spawn(
            "Xvfb",
            tied(xvfb)?
                .args(["-displayfd", "1", "-nolisten", "tcp", "-noreset", "-screen", "0", "640x480x8", "+extension", "SECURITY", "-auth"])
                .arg(&authority)
                .stdout(Stdio::piped())
                .stderr(std::fs::File::create(dir.join("xvfb.log")).expect("a log can be made")),
        );
        let mut number = String::new();
        let out = server.child().stdout.take().expect("piped");
        BufReader::new(out).read_line(&mut number).expect("Xvfb names its display");
        let name = format!(":{}", number.trim());
        assert!(name.len() > 1, "Xvfb ended: {}", std::fs::read_to_string(dir.join("xvfb.log")).unwrap_or_default());
        run(Command::new(&xauth).arg("-q").arg("-f").arg(&authority).args(["add", &name, "MIT-MAGIC-COOKIE-1", &cookie]));
        let display = Display { server, name, authority };
        look::wait_until("the X server's socket", || look::unix_socket_listens(&display.socket()));
        Ok(display)
    }

    pub fn number(&self) -> u32 {
        self.name[1..].parse().expect("a number")
    }

    /// `/tmp/.X11-unix/X77`
    pub fn socket(&self) -> PathBuf {
        PathBuf::from(format!("/tmp/.X11-unix/X{}", self.number()))
    }

    pub fn pid(&self) -> u32 {
        self.server.pid()
    }

    pub fn stop(mut self) {
        self.server.stop();
    }
}

/// How a display behind a TCP port greets a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Greeting {
    /// The cookie is good: windows would open.
    Accepted,
    /// The X server says no.
    Refused,
    /// Somebody listens, and hangs up without a word.
    Closed,
    /// Nobody listens.
    NoListener,
}

/// Says hello to the X server behind 127.0.0.1:`port`, with the cookie in hexadecimal; opens no window.
pub fn greet(port: u16, cookie: &str) -> Greeting {
    let Ok(mut stream) = TcpStream::connect((Ipv4Addr::LOCALHOST, port)) else {
        return Greeting::NoListener;
    };
    stream.set_read_timeout(Some(look::PATIENCE)).expect("a timeout can be set");
    let cookie: Vec<u8> = (0..cookie.len() / 2).map(|i| u8::from_str_radix(&cookie[2 * i..2 * i + 2], 16).expect("hexadecimal")).collect();
    // Little-endian, X11.0, then the name and the data of the authorization, each padded to four bytes.
    let name = b"MIT-MAGIC-COOKIE-1\0\0";
    let mut hello = vec![b'l', 0, 11, 0, 0, 0, 18, 0, u8::try_from(cookie.len()).expect("short"), 0, 0, 0];
    hello.extend_from_slice(name);
    hello.extend_from_slice(&cookie);
    let mut answer = [0; 1];
    match stream.write_all(&hello).and_then(|()| stream.read(&mut answer)) {
        Ok(1) if answer == [1] => Greeting::Accepted,
        Ok(1) => Greeting::Refused,
        _ => Greeting::Closed,
    }
}
