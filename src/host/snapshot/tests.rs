//! What a recorder keeps.

use super::*;

struct AsItIs;

impl Mask for AsItIs {
    fn environ(&self, environ: &Environ) -> Environ {
        environ.clone()
    }
    fn argv(&self, argv: &[Value]) -> Vec<Value> {
        argv.to_vec()
    }
    fn hides(&self, _: &[u8]) -> bool {
        false
    }
}

#[test]
fn a_bystander_whose_environment_was_refused_is_not_kept() {
    let recorder = Recorder::new(Box::new(AsItIs));
    for pid in 1..=4 {
        recorder.keep(&format!("processes/{pid}.json"), "stat", &Ok(pid));
    }
    recorder.keep("processes/2.json", "environ", &Err::<u32, _>(Unknown::NotPermitted));
    recorder.keep("processes/3.json", "environ", &Ok(Environ::default()));
    recorder.keep("processes/4.json", "fds", &Err::<u32, _>(Unknown::NotPermitted));
    recorder.keep("users.json", "0", &Ok("root"));
    recorder.narrow(|pid| pid == 1);
    let files = recorder.files.lock().unwrap();
    let kept: Vec<&str> = files.keys().map(String::as_str).collect();
    assert_eq!(kept, ["processes/1.json", "processes/3.json", "processes/4.json", "users.json"]);
}
