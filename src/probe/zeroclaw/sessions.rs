//! Whose environment a session has: attaching, reconnecting, naming another's, prompting another's.

use serde_json::json;

use super::bed::{Bed, FORBIDDEN, NOT_OWNED};
use super::claims::MARK;
use crate::host::lines::Said;
use crate::probe::{Stop, Trail, listed, map, nonce};
use crate::verdict::How;

/// An environment with a nonce, in which a shell works.
pub fn marked(mark: &str) -> serde_json::Value {
    map(&[("PATH", "/usr/bin:/bin"), (MARK, mark)])
}

/// What was answered, in words.
pub fn words(said: &Said) -> String {
    match said {
        Said::Result(_) => "allowed".to_owned(),
        Said::Error { code: code @ (FORBIDDEN | NOT_OWNED), message } => format!("refused, {code} {message}"),
        Said::Error { code, message } => format!("an error, {code} {message}"),
    }
}

/// Whether it was refused. A daemon that could not do it, as on a full disk, has not refused it.
///
/// # Errors
/// When it was neither done nor refused.
pub fn refused(what: &str, said: &Said) -> Result<bool, Stop> {
    match said {
        Said::Result(_) => Ok(false),
        Said::Error { code: FORBIDDEN | NOT_OWNED, .. } => Ok(true),
        Said::Error { .. } => Err(Stop::Failed(format!("{what} is neither done nor refused: {}", words(said)))),
    }
}

/// Z5: attaching.
pub fn attaching(bed: &mut Bed<'_>, trail: &mut Trail) -> Result<(), Stop> {
    let (mark, other) = (nonce("own")?, nonce("other")?);
    let mut owner = bed.client(Some(&marked(&mark)))?;
    let session = bed.session(&mut owner)?;
    let own = bed.new_session(&mut owner, &json!({"session_id": session}))?;
    trail.control(own.code().is_none(), format!("its own client may not attach: {}", words(&own)))?;
    let mut bare = bed.client(None)?;
    let without = bed.session(&mut bare)?;
    onto(trail, (&mark, &other), (&session, &without), |env, session| {
        let mut client = bed.client(env)?;
        bed.new_session(&mut client, &json!({"session_id": session}))
    })
}

/// Attaches to a session that was made with the first nonce, and to one that was made without an environment.
pub fn onto(
    trail: &mut Trail,
    (mark, other): (&str, &str),
    (session, without): (&str, &str),
    mut attach: impl FnMut(Option<&serde_json::Value>, &str) -> Result<Said, Stop>,
) -> Result<(), Stop> {
    let cases = [
        ("another environment", Some(marked(other)), session, true),
        ("no environment", None, session, true),
        ("an environment onto a session without one", Some(marked(mark)), without, true),
        ("the identical environment", Some(marked(mark)), session, false),
    ];
    for (what, env, session, forbidden) in cases {
        let said = attach(env.as_ref(), session)?;
        trail.saw(format!("session/new with {what}"), How::Connects, words(&said));
        refused("session/new", &said)?;
        let right = said.code() == forbidden.then_some(FORBIDDEN);
        trail.holds(right, || format!("attaching with {what} is {}", words(&said)));
    }
    Ok(())
}

/// Z6: a reconnect.
pub fn reconnect(bed: &mut Bed<'_>, trail: &mut Trail) -> Result<(), Stop> {
    let (before, after) = (nonce("before")?, nonce("after")?);
    let mut first = bed.client(Some(&marked(&before)))?;
    let old = bed.session(&mut first)?;
    let seen = bed.turn(&mut first, &old)?;
    trail.control(seen.has(MARK, &before), "the session did not see its client's nonce before")?;
    let mut second = bed.again(&first, &marked(&after))?;
    trail.control(second.tui_id == first.tui_id, "the daemon gave the reconnecting client another id")?;
    let still = bed.turn_of(&mut second, &old, Some(&mut first))?;
    trail.shell(&still, "the old session, after the reconnect");
    trail.holds(still.has(MARK, &before), || "the old session has not kept its clone".to_owned());
    let new = bed.session(&mut second)?;
    let fresh = bed.turn(&mut second, &new)?;
    trail.shell(&fresh, "a new session of the new connection");
    trail.holds(fresh.has(MARK, &after), || "a new session has not the new environment".to_owned());
    Ok(())
}

/// Z7: the connection that was superseded.
pub fn superseded(bed: &mut Bed<'_>, trail: &mut Trail) -> Result<(), Stop> {
    let (before, after) = (nonce("before")?, nonce("after")?);
    let mut first = bed.client(Some(&marked(&before)))?;
    let old = bed.session(&mut first)?;
    let seen = bed.turn(&mut first, &old)?;
    trail.control(seen.has(MARK, &before), "the session did not see its client's nonce before")?;
    let _second = bed.again(&first, &marked(&after))?;
    let new = bed.session(&mut first)?;
    let seen = bed.turn(&mut first, &new)?;
    let beyond = bed.beyond_layer_one(&seen);
    trail.shell(&seen, format!("a new session of the superseded connection: {} names beyond layer 1", beyond.len()));
    trail.holds(beyond.is_empty(), || format!("beyond layer 1: {}", listed(&beyond)));
    Ok(())
}

/// Z9: naming another's id.
pub fn naming(bed: &mut Bed<'_>, trail: &mut Trail) -> Result<(), Stop> {
    let (victim, own) = (nonce("victim")?, nonce("own")?);
    let mut other = bed.client(Some(&marked(&victim)))?;
    let theirs = bed.session(&mut other)?;
    let seen = bed.turn(&mut other, &theirs)?;
    trail.control(seen.has(MARK, &victim), "the other client's own session does not see its nonce")?;
    let mut client = bed.client(Some(&marked(&own)))?;
    let said = bed.new_session(&mut client, &json!({"tui_id": other.tui_id}))?;
    trail.saw("session/new with the other's tui_id", How::Connects, words(&said));
    if refused("session/new", &said)? {
        return Ok(());
    }
    let made = said.result("session/new")?;
    let session = made["session_id"].as_str().unwrap_or_default().to_owned();
    let seen = bed.turn(&mut client, &session)?;
    trail.shell(&seen, "the session that named the other's id");
    trail.holds(!seen.has(MARK, &victim), || "it has the other client's environment".to_owned());
    trail.holds(seen.has(MARK, &own), || "it has not its own client's environment".to_owned());
    Ok(())
}

/// Z10: the same id with the other chat mode.
pub fn other_mode(bed: &mut Bed<'_>, trail: &mut Trail) -> Result<(), Stop> {
    let (own, other) = (nonce("own")?, nonce("other")?);
    let mut owner = bed.client(Some(&marked(&own)))?;
    let session = bed.session(&mut owner)?;
    let before = bed.turn(&mut owner, &session)?;
    trail.control(before.has(MARK, &own), "the session does not see its own client's nonce")?;
    let mut attacher = bed.client(Some(&marked(&other)))?;
    let same = bed.new_session(&mut attacher, &json!({"session_id": session}))?;
    trail.control(same.code() == Some(FORBIDDEN), format!("with the same chat_mode it is {}", words(&same)))?;
    // A session without the field is a chat.
    let said = bed.new_session(&mut attacher, &json!({"session_id": session, "chat_mode": "acp"}))?;
    trail.saw("session/new with the same id and chat_mode acp", How::Connects, words(&said));
    if refused("session/new", &said)? {
        let after = bed.turn(&mut owner, &session)?;
        trail.shell(&after, "the session, after it was refused");
        trail.holds(after.has(MARK, &own), || "the session has another environment all the same".to_owned());
        return Ok(());
    }
    let after = bed.turn(&mut attacher, &session)?;
    let whose = match (after.has(MARK, &other), after.has(MARK, &own)) {
        (true, _) => "the attacher's",
        (false, true) => "its own",
        (false, false) => "nobody's",
    };
    trail.shell(&after, format!("the session, prompted by the attacher: {whose} environment"));
    trail.holds(!after.has(MARK, &other), || {
        "the same id with the other chat_mode replaces the session, unrefused: its shells have the attacher's environment".to_owned()
    });
    trail.holds(after.has(MARK, &own) || after.has(MARK, &other), || "the session has lost its environment".to_owned());
    Ok(())
}

/// Z11: prompting another's session.
pub fn foreign_prompt(bed: &mut Bed<'_>, trail: &mut Trail) -> Result<(), Stop> {
    let (own, other) = (nonce("own")?, nonce("other")?);
    let mut owner = bed.client(Some(&marked(&own)))?;
    let session = bed.session(&mut owner)?;
    let seen = bed.turn(&mut owner, &session)?;
    trail.control(seen.has(MARK, &own), "the session does not see its own client's nonce")?;
    let mut stranger = bed.client(Some(&marked(&other)))?;
    let seen = bed.turn_of(&mut stranger, &session, Some(&mut owner))?;
    let whose = if seen.has(MARK, &own) { "its own" } else { "not its own" };
    trail.shell(&seen, format!("another client prompts it, and is not refused: {whose} environment"));
    trail.holds(seen.has(MARK, &own), || "it has not its own client's environment".to_owned());
    trail.holds(!seen.has(MARK, &other), || "it has the prompting client's environment".to_owned());
    Ok(())
}
