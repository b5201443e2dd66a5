//! Shells complete the names of voices by asking the server. What clap generates completes files there, or nothing.

use clap_complete::Shell;

/// Prints the names of the server's voices, one in every line, and nothing where there is no server.
const NAMES: &str = "omni-client voices --timeout 2s 2>/dev/null | awk 'NR > 1 { print $1 }'";

/// `script` with the names of voices behind `--voice` and `-v`, for the shells that support it.
pub(super) fn completed(shell: Shell, script: String) -> String {
    match shell {
        Shell::Bash => bash(&script),
        Shell::Fish => fish(&script),
        Shell::Zsh => zsh(&script),
        _ => script,
    }
}

/// In bash every option has a case that sets COMPREPLY.
fn bash(script: &str) -> String {
    let mut lines: Vec<String> = Vec::new();
    let mut voice = false;
    for line in script.lines() {
        let case = line.trim();
        if case.ends_with(')') && case.starts_with('-') {
            // `-v` is the voice in every command that has it.
            voice = matches!(case, "--voice)" | "-v)");
        }
        if voice && case.starts_with("COMPREPLY=(") {
            let indent = &line[..line.len() - line.trim_start().len()];
            lines.push(format!(
                "{indent}COMPREPLY=($(compgen -W \"$({NAMES})\" -- \"${{cur}}\"))"
            ));
            voice = false;
        } else {
            lines.push(line.to_owned());
        }
    }
    lines.join("\n") + "\n"
}

/// In fish every option is a line.
fn fish(script: &str) -> String {
    let names = NAMES.replace('\'', "\\'");
    let mut lines = script.lines().map(|line| {
        if line.contains(" -l voice ") {
            format!("{line} -f -a '({names})'\n")
        } else {
            format!("{line}\n")
        }
    });
    lines.by_ref().collect()
}

/// In zsh every option names what completes its value. Quotes inside its single quotes are written as `'\''`.
fn zsh(script: &str) -> String {
    let action = format!(":NAME:($({}))'", NAMES.replace('\'', "'\\''"));
    let line = |line: &str| {
        let option = line.trim_start();
        let voice = ["'--voice=", "'-v+"]
            .iter()
            .any(|start| option.starts_with(start));
        let replaced = line.replace(":NAME:_default'", &action);
        format!("{}\n", if voice { &replaced } else { line })
    };
    script.lines().map(line).collect()
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::args::Args;

    fn script(shell: Shell) -> String {
        omni_manual::completions(Args::command(), shell)
    }

    #[test]
    fn shells_ask_the_server_for_voices_wherever_one_is_named() {
        // speak, chat, bench, doctor and explain; but for fish twice each, for both names of the option.
        for (shell, times) in [(Shell::Bash, 10), (Shell::Fish, 5), (Shell::Zsh, 10)] {
            let plain = script(shell);
            let completed = completed(shell, plain.clone());
            assert_eq!(
                completed.matches("omni-client voices --timeout").count(),
                times,
                "{shell}"
            );
            assert_eq!(completed.lines().count(), plain.lines().count(), "{shell}");
        }
        assert_eq!(
            completed(Shell::Elvish, script(Shell::Elvish)),
            script(Shell::Elvish)
        );
    }

    #[test]
    fn the_script_of_bash_completes_what_the_program_lists() {
        let script = completed(Shell::Bash, script(Shell::Bash));
        let test = format!(
            "omni-client() {{ printf 'VOICE  LANGUAGES\\namber (default)  en\\nash  en\\nbasil  en\\n'; }}\n{script}\n\
             COMP_WORDS=(omni-client speak --voice a); COMP_CWORD=3\n\
             _omni__client omni-client a --voice\nprintf '%s ' \"${{COMPREPLY[@]}}\""
        );
        let outcome = std::process::Command::new("bash")
            .args(["-c", &test])
            .output()
            .unwrap();
        assert_eq!(
            String::from_utf8_lossy(&outcome.stdout),
            "amber ash ",
            "{}",
            String::from_utf8_lossy(&outcome.stderr)
        );
    }
}
