//! What reaches a shell: the client's snapshot over layer 1.

use serde_json::json;

use super::ABSENT;
use super::bed::{Bed, SAFE, SESSION_ID, Turned, but};
use crate::probe::{Stop, Trail, listed, map, nonce};
use crate::verdict::How;

/// The variable that carries a nonce.
pub const MARK: &str = "WHOSEENV_MARK";

/// Z1: the client's value wins.
pub fn client_wins(bed: &mut Bed<'_>, trail: &mut Trail) -> Result<(), Stop> {
    let mark = nonce("client")?;
    let path = format!("/usr/bin:/bin:/{mark}");
    let home = bed.nest.join("tmp").display().to_string();
    trail.control(
        bed.block.text("PATH") != Some(&path) && bed.block.text("HOME") != Some(&home),
        "the daemon has the client's values itself",
    )?;
    let mut client = bed.client(Some(&map(&[("PATH", &path), ("HOME", &home), (MARK, &mark)])))?;
    let session = bed.session(&mut client)?;
    let seen = bed.turn(&mut client, &session)?;
    let won = [("PATH", &path), ("HOME", &home), (MARK, &mark)].map(|(name, value)| (name, seen.has(name, value)));
    let lost: Vec<_> = won.iter().filter(|(_, won)| !won).map(|(name, _)| *name).collect();
    trail.shell(&seen, format!("{} of the client's three values are there", 3 - lost.len()));
    trail.holds(lost.is_empty(), || format!("not the client's: {}", lost.join(", ")));
    Ok(())
}

/// Z2: no environment, or an empty one, is layer 1 alone.
pub fn layer_one_alone(bed: &mut Bed<'_>, trail: &mut Trail) -> Result<(), Stop> {
    trail.control(bed.block.get("DISPLAY").is_some(), "the daemon has no name that is not in layer 1")?;
    for (what, env) in [("no environment", None), ("an empty one", Some(json!({})))] {
        let mut client = bed.client(env.as_ref())?;
        let session = bed.session(&mut client)?;
        let seen = bed.turn(&mut client, &session)?;
        let beyond = bed.beyond_layer_one(&seen);
        trail.shell(&seen, format!("a client that sends {what}: {} names, {} of them not of layer 1", seen.names().len(), beyond.len()));
        trail.holds(beyond.is_empty(), || format!("a client that sends {what}: {}", listed(&beyond)));
    }
    Ok(())
}

/// Z3: layer 1 is exactly that.
pub fn layer_one(bed: &mut Bed<'_>, trail: &mut Trail) -> Result<(), Stop> {
    let unset: Vec<_> = SAFE.into_iter().filter(|name| bed.block.get(name).is_none()).collect();
    trail.control(unset.is_empty(), format!("the daemon lacks {}", unset.join(", ")))?;
    trail.control(bed.block.get("DISPLAY").is_some(), "the daemon has no other names")?;
    let mut client = bed.client(None)?;
    let session = bed.session(&mut client)?;
    let seen = bed.turn(&mut client, &session)?;
    let expected = SAFE
        .into_iter()
        .chain(bed.declared().iter().map(String::as_str))
        .filter(|name| bed.block.get(name).is_some() && bed.put_in(name).is_none());
    let wrong: Vec<_> = expected.filter(|name| seen.get(name) != bed.block.bytes(name)).map(str::to_owned).collect();
    let beyond = bed.beyond_layer_one(&seen);
    trail.shell(&seen, listed(&seen.names()));
    trail.holds(wrong.is_empty(), || format!("of layer 1 and not the daemon's: {}", wrong.join(", ")));
    trail.holds(beyond.is_empty(), || format!("beyond layer 1: {}", listed(&beyond)));
    trail.holds(seen.get(SESSION_ID) == Some(session.as_bytes()), || format!("{SESSION_ID} is not the session's id"));
    Ok(())
}

/// Z14: what is declared is there.
pub fn declared(bed: &mut Bed<'_>, trail: &mut Trail) -> Result<(), Stop> {
    trail.control(bed.block.get("WHOSEENV_FROZEN").is_some(), "the daemon itself lacks the declared name")?;
    let mut client = bed.client(None)?;
    let session = bed.session(&mut client)?;
    let seen = bed.turn(&mut client, &session)?;
    let (mut absent, mut others) = (Vec::new(), Vec::new());
    for name in bed.declared() {
        if let Some(who) = bed.put_in(name) {
            // There with the declaration and without it.
            others.push(format!("{name}: {who} puts it in"));
            continue;
        }
        let well_formed =
            name.bytes().enumerate().all(|(at, byte)| byte == b'_' || byte.is_ascii_alphabetic() || at > 0 && byte.is_ascii_digit());
        let there = seen.get(name).is_some();
        match (well_formed && !name.is_empty(), bed.block.bytes(name)) {
            (false, _) => absent.push(format!("{name}: no name, dropped by the policy")),
            (true, None) => absent.push(format!("{name}: unset in the daemon, dropped by layer 1")),
            (true, Some(value)) => trail.holds(seen.get(name) == Some(value), || {
                format!("{name} is declared and set in the daemon, and is {} in the shell", if there { "another" } else { "not" })
            }),
        }
        trail.holds(!there || bed.block.get(name).is_some(), || format!("{name} is in the shell and not in the daemon"));
    }
    let count = bed.declared().len();
    trail.shell(&seen, format!("{} of {count} declared names are there", count - absent.len() - others.len()));
    for line in others {
        trail.saw("declared and put in anyway", How::RunsACommand, line);
    }
    for line in absent {
        trail.saw(ABSENT, How::RunsACommand, line);
    }
    Ok(())
}

/// Z4: isolation, twenty at once.
pub fn isolated(bed: &mut Bed<'_>, trail: &mut Trail) -> Result<(), Stop> {
    const AT_ONCE: usize = 20;
    let mut clients = Vec::new();
    for number in 0..AT_ONCE {
        let mark = nonce(&format!("one-of-{number}"))?;
        let mut client = bed.client(Some(&map(&[("PATH", "/usr/bin:/bin"), (MARK, &mark)])))?;
        let session = bed.session(&mut client)?;
        clients.push((client, session, mark));
    }
    let turns = clients.iter_mut().map(|(client, session, _)| bed.begin(client, session)).collect::<Result<Vec<_>, _>>()?;
    let mut marks = Vec::new();
    for ((client, ..), turn) in clients.iter_mut().zip(&turns) {
        match bed.end_turn(client, turn)? {
            Turned::Shell(seen) => marks.push(seen.block.text(MARK).map(str::to_owned)),
            Turned::Silent(said) => return Err(Stop::Failed(format!("a shell did not call{}", but(&said)))),
        }
    }
    trail.control(marks.iter().all(Option::is_some), "not every shell sees a nonce at all")?;
    let own = marks.iter().zip(&clients).filter(|(seen, (_, _, mark))| seen.as_ref() == Some(mark)).count();
    trail.shells(format!("{AT_ONCE} turns at once"), format!("{own} shells see their own client's nonce"));
    trail.holds(own == AT_ONCE, || format!("{} of {AT_ONCE} see another client's environment", AT_ONCE - own));
    Ok(())
}

/// Z13: a value that no execve takes.
pub fn oversized(bed: &mut Bed<'_>, trail: &mut Trail) -> Result<(), Stop> {
    let mark = nonce("large")?;
    let small = map(&[("PATH", "/usr/bin:/bin"), (MARK, &mark)]);
    let mut plain = bed.client(Some(&small))?;
    let session = bed.session(&mut plain)?;
    let seen = bed.turn(&mut plain, &session)?;
    trail.control(seen.has(MARK, &mark), "the same client without that value has no shell")?;
    let mut large = small;
    large["WHOSEENV_LARGE"] = "x".repeat(200_000).into();
    let mut client = bed.client(Some(&large))?;
    let session = bed.session(&mut client)?;
    for which in ["first", "second"] {
        let turn = bed.begin(&mut client, &session)?;
        match bed.end_turn(&mut client, &turn)? {
            Turned::Shell(seen) => {
                trail.shell(&seen, format!("the {which} turn has a shell"));
                trail.holds(false, || format!("the {which} turn has a shell all the same"));
            }
            Turned::Silent(said) => {
                let too_long = said.contains("Argument list too long");
                let word = if too_long { "Argument list too long".to_owned() } else { but(&said) };
                trail.saw(format!("the {which} turn"), How::RunsACommand, format!("no shell: {word}; the session answers"));
                if !too_long {
                    return Err(Stop::Failed(format!("the {which} turn fails, and not because of the value's length{}", but(&said))));
                }
            }
        }
    }
    Ok(())
}
