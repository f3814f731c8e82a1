//! The registry of classes: what a variable is about.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

macro_rules! classes {
    ($($name:ident = $word:literal, $text:literal;)*) => {
        /// What a variable is about.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
        #[serde(rename_all = "snake_case")]
        pub enum Class {
            $(#[doc = $text] $name,)*
        }

        impl Class {
            /// Every class, in the order in which they are listed.
            pub const ALL: &[Class] = &[$(Class::$name),*];

            /// The word used in JSON and on the screen.
            pub fn word(self) -> &'static str {
                match self { $(Class::$name => $word),* }
            }

            /// Whether a difference in it tells a person something when two environments are compared at a glance.
            pub fn is_telling(self) -> bool {
                matches!(self, Class::AgentMarker | Class::AgentConfig | Class::Git | Class::Proxy | Class::VersionManager | Class::Path)
            }

            /// What it means, for the man page.
            pub fn text(self) -> &'static str {
                match self { $(Class::$name => $text),* }
            }
        }
    };
}

classes! {
    Display = "display", "The X display and what belongs to it.";
    Wayland = "wayland", "The Wayland compositor.";
    XAuthority = "x_authority", "The X cookies.";
    Ssh = "ssh", "The ssh login.";
    SshAgent = "ssh_agent", "The ssh agent or keyring.";
    Bus = "bus", "A D-Bus address.";
    RuntimeDir = "runtime_dir", "The user's runtime directory.";
    Xdg = "xdg", "The XDG specifications' sessions and directories.";
    Terminal = "terminal", "The terminal emulator.";
    Multiplexer = "multiplexer", "A terminal multiplexer, or a terminal with a control socket.";
    Editor = "editor", "An editor, its sockets, and the programs used as one.";
    WindowManager = "window_manager", "A window manager.";
    Audio = "audio", "A sound server.";
    Gpg = "gpg", "GnuPG.";
    Containers = "containers", "A container engine or cluster.";
    Proxy = "proxy", "Network proxies.";
    Certificates = "certificates", "Trusted certificates.";
    Path = "path", "Where programs, libraries and temporary files are found.";
    VersionManager = "version_manager", "A version manager or a tool's home.";
    AgentMarker = "agent_marker", "Marks a running agent to the processes below it.";
    AgentConfig = "agent_config", "A setting of an agent.";
    Locale = "locale", "Language, character set and time zone.";
    Identity = "identity", "Who the user is.";
    Git = "git", "git's author, configuration and programs.";
    ServiceManager = "service_manager", "What systemd tells a unit.";
    ShellNoise = "shell_noise", "What a shell keeps for itself.";
    Secret = "secret", "A secret by its name.";
    Other = "other", "Anything else.";
}
