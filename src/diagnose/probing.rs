//! What a probe came to, as findings.

use crate::probe::claims::by_id;
use crate::probe::zeroclaw::{ABSENT, DECLARED};
use crate::probe::{Data, Judged};
use crate::report::Report;
use crate::verdict::registry::{
    PROBE_DECLARED_UNUSED, PROBE_LEFT, PROBE_NOT_ASKED, PROBE_REFUTED, PROBE_UNDETERMINED, PROBE_UNEXPECTED, PROBE_UNSUPPORTED,
};
use crate::verdict::{Evidence, Finding, How, Outcome};

/// Claims that stand for a surface which `--require` may ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Required {
    /// The upload of an environment to a session.
    SessionEnvironment,
}

impl Required {
    /// The claims that are about it.
    fn claims(self) -> &'static [&'static str] {
        match self {
            Required::SessionEnvironment => &["O3"],
        }
    }
}

/// The report of a probe.
pub fn report(command: &'static str, data: Data, required: &[Required]) -> Report<Data> {
    let mut report = Report::new(command, data);
    let subject = match &report.data.host {
        Some(host) => {
            let version = host.version.as_deref().map(|version| format!(" {version}")).unwrap_or_default();
            format!("{}{version}", host.product)
        }
        None => "the host".to_owned(),
    };
    report.findings = report.data.claims.iter().filter_map(|claim| finding(&subject, claim, required)).collect();
    report.findings.extend(report.data.claims.iter().flat_map(|claim| unused(&subject, claim)));
    for left in report.data.cleanup.left.iter().filter(|left| !left.by_nature) {
        let evidence = Evidence { source: left.what.clone(), how: How::Connects, at: crate::probe::now(), detail: left.why.clone() };
        let message = format!("{} is left: {}", left.what, left.why);
        report.findings.push(Finding::new(&PROBE_LEFT, Outcome::Confirmed, subject.clone(), message).evidence([evidence]));
    }
    report
}

/// Names that a person declared and no child has, with the layer that dropped them.
fn unused(subject: &str, claim: &Judged) -> Vec<Finding> {
    let own = |detail: &str| DECLARED.iter().any(|name| detail.starts_with(&format!("{name}:")));
    let absent = claim.evidence.iter().filter(|evidence| evidence.source == ABSENT && !own(&evidence.detail));
    let finding = |evidence: &Evidence| {
        let message = format!("declared, and not in the child: {}", evidence.detail);
        Finding::new(&PROBE_DECLARED_UNUSED, Outcome::Confirmed, format!("{} on {subject}", claim.id), message).evidence([evidence.clone()])
    };
    absent.map(finding).collect()
}

fn finding(subject: &str, claim: &Judged, required: &[Required]) -> Option<Finding> {
    let subject = format!("{} on {subject}", claim.id);
    let last = claim.evidence.last().map(|evidence| evidence.detail.as_str()).unwrap_or_default();
    let wanted = required.iter().any(|required| required.claims().contains(&claim.id.as_str()));
    let (kind, outcome, message) = match claim.outcome {
        Outcome::Confirmed => return None,
        // Not of the registry: a recipe, whose text is its author's.
        Outcome::Refuted if by_id(&claim.id).is_none() => (&PROBE_UNEXPECTED, Outcome::Confirmed, format!("{} {last}", claim.statement)),
        Outcome::Refuted => (&PROBE_REFUTED, Outcome::Confirmed, format!("it does not hold that: {} {last}", claim.statement)),
        Outcome::NotSupported if !wanted => return None,
        Outcome::NotSupported => (&PROBE_UNSUPPORTED, Outcome::Confirmed, format!("the host takes no session environments: {last}")),
        Outcome::Undetermined if !claim.asked => (&PROBE_NOT_ASKED, Outcome::Undetermined, format!("{} {last}", claim.statement)),
        Outcome::Undetermined => (&PROBE_UNDETERMINED, Outcome::Undetermined, format!("{} {last}", claim.statement)),
    };
    Some(Finding::new(kind, outcome, subject, message).evidence(claim.evidence.iter().cloned()))
}
