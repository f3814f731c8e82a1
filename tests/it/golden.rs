//! Golden output: commands × captured machines × faces. The machines are fixtures/, captured by `capture.rs`.
//!
//! To accept a wanted change: `INSTA_UPDATE=always cargo test --test it golden`, then read the diff.

use std::path::PathBuf;

use crate::run::{ran, whoseenv};

const COMMANDS: [(&str, &[&str]); 5] = [
    ("doctor", &["doctor"]),
    ("ps", &["ps"]),
    ("show", &["show", "opencode"]),
    ("diff", &["diff", "opencode"]),
    ("owner", &["owner", "DISPLAY", "opencode"]),
];

fn fixture(machine: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(machine)
}

fn golden(machine: &str) {
    let dir = fixture(machine);
    let dir = dir.to_str().expect("a readable path");
    for (name, arguments) in COMMANDS {
        for (face, width, flags) in [("json", None, &["--json"][..]), ("80", Some("80"), &[]), ("40", Some("40"), &[])] {
            let mut command = whoseenv(&["--from", dir]);
            command.args(arguments).args(flags);
            if let Some(width) = width {
                command.env("WHOSEENV_WIDTH", width);
            }
            let ran = ran(&mut command);
            if (name, face) == ("doctor", "json") {
                crate::one_mind::assert_of_one_mind(&ran.json());
            }
            let text = format!("exit {}\n{}{}", ran.code, ran.stdout, ran.stderr);
            insta::with_settings!({ prepend_module_to_snapshot => false, omit_expression => true }, {
                insta::assert_snapshot!(format!("{machine}-{name}-{face}"), text);
            });
        }
    }
}

#[test]
fn another_login_s_display() {
    golden("foreign");
}

#[test]
fn a_display_that_refuses() {
    golden("refused");
}

#[test]
fn a_display_that_another_login_got() {
    golden("demo");
}

#[test]
fn a_stranger_who_may_not_look() {
    golden("stranger");
}
