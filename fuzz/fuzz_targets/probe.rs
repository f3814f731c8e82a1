//! What a probed host sends, and what a person writes of one: whatever it is, nothing panics, and no id leads out of a path.
#![no_main]

use libfuzzer_sys::fuzz_target;
use whoseenv::agent::opencode::service_file::parse_password;
use whoseenv::host::http::Reply;
use whoseenv::host::lines::first_line;
use whoseenv::probe::exec::recipe;
use whoseenv::probe::opencode::api::Dialect;
use whoseenv::probe::stub_model::request;

fuzz_target!(|bytes: &[u8]| {
    let mut buffer = bytes.to_vec();
    while let Ok(Some(_)) = first_line(&mut buffer) {}
    let _ = request(&mut &bytes[..]);
    let _ = parse_password(bytes);
    let reply = Reply { status: 200, kind: String::new(), body: bytes.to_vec(), cut: false };
    for dialect in [Dialect::V1, Dialect::V2] {
        if let Some(id) = dialect.id(&reply) {
            assert!(!id.contains(['/', '.', '?', '%']));
        }
    }
    let _ = reply.shape();
    if let Ok(text) = std::str::from_utf8(bytes) {
        for recipe in recipe::parse(text).unwrap_or_default() {
            assert!(recipe::sound(&recipe).is_ok());
        }
    }
});
