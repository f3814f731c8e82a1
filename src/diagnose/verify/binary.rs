//! The fourth line: what the program file itself shows of the feature that the injection tests.

use super::{Agent, Line};
use crate::binary::identify::{Feature, Identified};
use crate::diagnose::binaries::{Opened, Target, identity, open};
use crate::diagnose::subject::Narrow;
use crate::host::Host;
use crate::verdict::{Evidence, Finding, How, Outcome};

/// What the file shows, and a finding where its version and its code are of two generations.
pub fn line(host: &Host, agent: Agent, program: &std::path::Path) -> (Line, Option<Finding>) {
    let target = Target::File(program.as_os_str().to_owned());
    let looked = open(host, &target, &Narrow::default()).and_then(|opened| Ok((identity::of(&opened.program, &opened.label)?, opened)));
    match looked {
        Ok((identified, opened)) => (shown(host, agent, &identified, &opened), identity::disagreement(host, &opened.label, &identified)),
        Err(problem) => {
            let says = format!("not looked at: {}", problem.message);
            (Line { line: "binary", claim: None, outcome: Some(Outcome::Undetermined), says, evidence: Vec::new() }, None)
        }
    }
}

fn shown(host: &Host, agent: Agent, identified: &Identified, opened: &Opened) -> Line {
    let line = |outcome, says, evidence| Line { line: "binary", claim: None, outcome: Some(outcome), says, evidence };
    let known = identified.product.as_deref() == Some(agent.id());
    let feature = identified.features.iter().find(|feature| feature.id == agent.feature()).filter(|_| known);
    let Some(feature) = feature else {
        return line(Outcome::Undetermined, format!("its code is not known as {}'s", agent.id()), Vec::new());
    };
    let generation = match (&identified.generation, &identified.generation_title) {
        (Some(id), Some(title)) => format!("generation {id} ({title})"),
        _ => "of a generation that no strings decide".to_owned(),
    };
    let (outcome, verb) = if feature.present { (Outcome::Confirmed, "has") } else { (Outcome::NotSupported, "has not") };
    line(outcome, format!("{generation}; its code {verb}: {}", feature.title), evidence(host, feature, opened))
}

fn evidence(host: &Host, feature: &Feature, opened: &Opened) -> Vec<Evidence> {
    let seen = feature.evidence.iter().map(|seen| {
        // It may begin with the quotation mark that stands before it in the code.
        let string = seen.string.trim_matches(['"', '\'', '`']);
        let (source, detail) = match seen.offset {
            Some(offset) => (format!("{}, byte {offset}", opened.label), format!("`{string}` stands there")),
            None => (opened.label.clone(), format!("`{string}` is not in its code")),
        };
        Evidence { source, how: How::Passive, at: host.machine().taken_at(), detail }
    });
    seen.collect()
}
