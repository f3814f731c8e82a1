//! Secrets by name, word by word: `SSH_AUTH_SOCK`, `XAUTHORITY`, `PWD` and `KEYBOARD` are none.

/// Words that make a name a secret's, wherever they stand.
const WORDS: [&str; 23] = [
    "TOKEN",
    "TOKENS",
    "SECRET",
    "SECRETS",
    "PASSWORD",
    "PASSWORDS",
    "PASSWD",
    "PASSPHRASE",
    "PASSCODE",
    "PASS",
    "APIKEY",
    "CREDENTIAL",
    "CREDENTIALS",
    "CREDS",
    "PRIVATE",
    "COOKIE",
    "COOKIES",
    "BEARER",
    "PIN",
    "PINCODE",
    "PSK",
    "OTP",
    "TOTP",
];

/// Ends of words that people write without a separator: `PGPASSWORD`, `GHTOKEN`.
const ENDS: [&str; 9] = ["TOKEN", "SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "APIKEY", "SECRETKEY", "ACCESSKEY", "PRIVATEKEY"];

/// What `KEY` before it is not a secret with: the key's name, kind or handling.
const AFTER_KEY: [&str; 9] = ["ID", "IDS", "CHECKING", "TYPE", "TYPES", "MAP", "BINDINGS", "FORMAT", "ALGORITHM"];

/// What `KEY` after it is public.
const BEFORE_KEY: [&str; 4] = ["PUBLIC", "GPG", "PGP", "HOST"];

/// What `AUTH` before it is a secret with.
const AFTER_AUTH: [&str; 7] = ["HEADER", "CONTENT", "DATA", "CODE", "STRING", "JSON", "KEY"];

/// Whether a variable or option of this name holds a secret.
pub fn secret_name(name: &[u8]) -> bool {
    if matches!(name, b"PWD" | b"SSH_USER_AUTH" | b"TMUX_PWD") {
        return false;
    }
    // The words are ASCII; anything else only separates them.
    let words = words(name);
    let word = |at: usize| words.get(at).map_or("", String::as_str);
    words.iter().enumerate().any(|(at, this)| {
        let (before, after) = (if at > 0 { word(at - 1) } else { "" }, word(at + 1));
        match this.as_str() {
            "TOKENS" if before == "MAX" || before == "OUTPUT" || before == "THINKING" => false,
            "PWD" | "JWT" => after.is_empty(),
            "KEY" | "KEYS" => !AFTER_KEY.contains(&after) && !BEFORE_KEY.contains(&before),
            "AUTH" => after.is_empty() || AFTER_AUTH.contains(&after),
            this => WORDS.contains(&this) || ENDS.iter().any(|end| this.len() > end.len() && this.ends_with(end)),
        }
    })
}

/// The words of a name in upper case: split at everything that is no letter or digit, and at the humps of camel case.
fn words(name: &[u8]) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    for (at, &byte) in name.iter().enumerate() {
        if !byte.is_ascii_alphanumeric() {
            words.extend((!word.is_empty()).then(|| std::mem::take(&mut word)));
            continue;
        }
        let before = at.checked_sub(1).and_then(|before| name.get(before));
        let after = name.get(at + 1);
        // `apiKey` has a hump before K, `APIKey` too: the last capital of a run begins the next word.
        let hump = byte.is_ascii_uppercase()
            && (before.is_some_and(u8::is_ascii_lowercase)
                || (before.is_some_and(u8::is_ascii_uppercase) && after.is_some_and(u8::is_ascii_lowercase)));
        if hump {
            words.extend((!word.is_empty()).then(|| std::mem::take(&mut word)));
        }
        word.push(byte.to_ascii_uppercase() as char);
    }
    words.extend((!word.is_empty()).then_some(word));
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_by_name() {
        let secrets = "LC_API_TOKEN OPENCODE_SERVER_PASSWORD AWS_SECRET_ACCESS_KEY OPENAI_API_KEY GITHUB_TOKEN PGPASSWORD MYSQL_PWD DB_PASS \
             apiKey APIKey accessToken XDG_SESSION_COOKIE CARD_PIN WIFI_PSK mfaOtp NPM_AUTH npm_config__authToken OPENCODE_AUTH_CONTENT VSCODE_GIT_IPC_AUTH_TOKEN \
             GOOGLE_APPLICATION_CREDENTIALS PRIVATE_KEY api-key token password X-Api-Key CLAUDE_CODE_OAUTH_TOKEN STRIPE_KEY GHTOKEN";
        for name in secrets.split_whitespace() {
            assert!(secret_name(name.as_bytes()), "{name}");
        }
    }

    #[test]
    fn names_that_only_sound_like_secrets() {
        let innocent = "SSH_AUTH_SOCK XAUTHORITY PWD OLDPWD SSH_ASKPASS GIT_ASKPASS SUDO_ASKPASS VSCODE_GIT_ASKPASS_NODE KEYBOARD KEYTIMEOUT \
             GPG_KEY GPG_KEY_ID AWS_ACCESS_KEY_ID KITTY_PUBLIC_KEY GNOME_KEYRING_CONTROL TOKENIZERS_PARALLELISM CLAUDE_CODE_MAX_OUTPUT_TOKENS \
             GIT_AUTHOR_NAME StrictHostKeyChecking PASSENV COMPASS monkey PINENTRY_USER_DATA SPIN INIT_CWD SSH_CONNECTION";
        for name in innocent.split_whitespace() {
            assert!(!secret_name(name.as_bytes()), "{name}");
        }
    }
}
