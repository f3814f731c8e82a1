//! The form of JSON texts, and strings on their way into ours.
#![no_main]

use libfuzzer_sys::fuzz_target;
use whoseenv::store::{shape, text};

fuzz_target!(|bytes: &[u8]| {
    let _ = (shape::kind(bytes), shape::plain_string(bytes, "inputID"));
    let mut keys = Vec::new();
    shape::members(bytes, |key, _| keys.push(key));
    if let Ok(serde_json::Value::Object(object)) = serde_json::from_slice(bytes) {
        assert!(keys.len() >= object.len());
    }
    if let Ok(plain) = std::str::from_utf8(bytes) {
        let mut out = Vec::new();
        text::string(&mut out, plain);
        assert_eq!(serde_json::from_slice::<String>(&out).expect("JSON"), plain);
    }
});
