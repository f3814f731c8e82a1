//! `--anonymize`: which names of a machine are a person's, for [`crate::redact::anonymize`].

use serde_json::Value;

use crate::host::Host;
use crate::redact::anonymize::Anonymizer;

/// Accounts below this uid belong to the system and tell nothing of a person.
const FIRST_PERSON: u32 = 1000;
/// `nobody`, the same everywhere.
const NOBODY: u32 = 65_534;

/// A rewriter for JSON values, with the names of this machine learned.
pub fn rewriter(host: &Host) -> Box<dyn Fn(&mut Value)> {
    let anonymizer = learn(host);
    Box::new(move |value| anonymizer.json(value))
}

fn learn(host: &Host) -> Anonymizer {
    let mut anonymizer = Anonymizer::new();
    anonymizer.learn_host(&host.machine().hostname);
    for (uid, name) in host.users() {
        if uid >= FIRST_PERSON && uid != NOBODY {
            anonymizer.learn_user(&name);
        }
    }
    anonymizer
}
