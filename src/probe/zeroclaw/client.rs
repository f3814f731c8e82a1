//! A connection to ZeroClaw that has sent its environment.

use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use crate::host::http::NoAnswer;
use crate::host::lines::{Lines, Said};
use crate::probe::Stop;

/// A connection that has sent its environment.
pub struct Client {
    /// The wire.
    pub lines: Lines,
    /// Its id, as the daemon gave it.
    pub tui_id: String,
    /// What proves that it is this one's.
    pub tui_sig: String,
    /// The daemon's version.
    pub version: Option<String>,
    patience: Duration,
}

impl Client {
    /// Connects and says what there is to say first.
    ///
    /// # Errors
    /// When the daemon does not answer, or refuses.
    pub fn connect(socket: &Path, env: Option<&Value>, again: Option<(&str, &str)>, patience: Duration) -> Result<Client, NoAnswer> {
        let mut lines = Lines::connect(socket)?;
        let mut parameters = json!({"protocol_version": 1});
        if let Some(env) = env {
            parameters["env"] = env.clone();
        }
        if let Some((id, signature)) = again {
            parameters["tui_id"] = id.into();
            parameters["tui_sig"] = signature.into();
        }
        let said = lines.call("initialize", &parameters, patience)?.result("initialize")?;
        let text = |key: &str| said[key].as_str().unwrap_or_default().to_owned();
        let version = said["server_version"].as_str().map(|version| version.chars().take(80).collect());
        Ok(Client { lines, tui_id: text("tui_id"), tui_sig: text("tui_sig"), version, patience })
    }

    /// A new session.
    ///
    /// # Errors
    /// When the daemon makes none.
    pub fn session(&mut self, directory: &Path, more: &Value) -> Result<String, Stop> {
        let made = self.new_session(directory, more)?.result("session/new")?;
        made["session_id"].as_str().map(str::to_owned).ok_or_else(|| Stop::Failed("session/new gives no session_id".to_owned()))
    }

    /// `session/new`, whatever the answer.
    ///
    /// # Errors
    /// When there is no answer.
    pub fn new_session(&mut self, directory: &Path, more: &Value) -> Result<Said, NoAnswer> {
        let mut parameters = json!({"agent_alias": "main", "cwd": directory, "keep_siblings": true});
        for (name, value) in more.as_object().into_iter().flatten() {
            parameters[name] = value.clone();
        }
        self.call("session/new", &parameters)
    }

    /// Any call, whatever the answer.
    ///
    /// # Errors
    /// When there is no answer.
    pub fn call(&mut self, method: &str, parameters: &Value) -> Result<Said, NoAnswer> {
        self.lines.call(method, parameters, self.patience)
    }

    /// Answers what the daemon asks meanwhile, and keeps what its tool says.
    ///
    /// # Errors
    /// When the daemon hung up.
    pub fn attend(&mut self, session: &str, said: &mut String) -> Result<(), NoAnswer> {
        while let Some(note) = self.lines.unasked.pop_front() {
            let parameters = &note["params"];
            if parameters["session_id"] != session {
                continue;
            }
            match parameters["type"].as_str() {
                // Of the probe's own sessions alone, and the command is the probe's.
                Some("approval_request") => {
                    let answer = json!({"session_id": session, "request_id": parameters["request_id"], "decision": "allow_once"});
                    self.lines.send("session/approve", &answer)?;
                }
                Some("tool_result") => {
                    let words: HashMap<&str, &Value> =
                        parameters.as_object().into_iter().flatten().map(|(key, value)| (key.as_str(), value)).collect();
                    let text =
                        ["output", "result", "content", "error", "raw_output"].iter().find_map(|key| Some(words.get(key)?.to_string()));
                    *said = text.unwrap_or_else(|| parameters.to_string()).chars().take(400).collect();
                }
                _ => {}
            }
        }
        Ok(())
    }
}
