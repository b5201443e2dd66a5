//! Functions that answers may call.

use omni_core::error::excerpt;
use omni_family::{Part, Role};
use omni_services::{ChatModel, PartRequest};
use serde::Deserialize;
use serde_json::{Value, json};

use super::hints::Hints;
use super::items::checked;
use crate::error::ApiError;
use crate::json::JsonText;
use crate::lean::TextOr;

/// A function as a client sends it.
#[derive(Debug, Deserialize)]
pub(super) struct ToolBody {
    #[serde(rename = "type")]
    kind: Option<String>,
    #[serde(default)]
    name: String,
    description: Option<String>,
    parameters: Option<JsonText>,
}

/// A function that was checked.
#[derive(Debug, PartialEq)]
pub(super) struct Tool {
    name: String,
    /// The function as clients see it.
    told: Value,
    /// The function as a part of the system message.
    part: Part,
}

impl ToolBody {
    /// Checks functions. Tools of other types are left out, and a model without function calls is offered none.
    pub(super) fn offered(
        mut tools: Vec<Self>,
        model: &ChatModel,
        hints: &mut Hints,
    ) -> Result<Vec<Tool>, ApiError> {
        const FIELD: &str = "session.tools";
        let other = |tool: &Self| tool.kind.as_deref().is_some_and(|kind| kind != "function");
        if let Some(left_out) = tools.iter().find(|tool| other(tool)) {
            let kind = excerpt(left_out.kind.as_deref().unwrap_or_default());
            hints.ignore(FIELD, &kind, "tools of type function")?;
            tools.retain(|tool| !other(tool));
        }
        if tools.is_empty() {
            return Ok(Vec::new());
        }
        if !model.chat.tools {
            hints.ignore(FIELD, "function", "none: this model calls no functions")?;
            return Ok(Vec::new());
        }
        let parts = checked(Role::System, tools.iter().map(Self::part).collect(), model)?.parts;
        let tools = tools.into_iter().zip(parts).map(|(tool, part)| Tool {
            told: tool.json(),
            name: tool.name,
            part,
        });
        Ok(tools.collect())
    }

    fn part(&self) -> PartRequest {
        PartRequest::Tool {
            name: self.name.clone(),
            description: self.description.clone().unwrap_or_default(),
            parameters: match &self.parameters {
                Some(JsonText(text)) if text != "null" => text.clone(),
                _ => String::new(),
            },
        }
    }

    fn json(&self) -> Value {
        let parameters = self.parameters.as_ref();
        let parameters = parameters.and_then(|JsonText(text)| serde_json::from_str::<Value>(text).ok());
        json!({
            "type": "function",
            "name": self.name,
            "description": self.description,
            "parameters": parameters,
        })
    }
}

impl Tool {
    /// The function as clients see it.
    pub(super) fn json(&self) -> &Value {
        &self.told
    }

    /// The function as the model reads it.
    pub(super) fn part(&self) -> &Part {
        &self.part
    }

    /// Its characters in the prompt.
    pub(super) fn characters(&self) -> usize {
        match &self.part {
            Part::Tool(tool) => tool.characters(),
            Part::Text(_) | Part::Audio(_) => 0,
        }
    }
}

/// Functions that the model may call.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum ToolChoice {
    Auto,
    None,
    /// Only this one is offered.
    Named(String),
}

/// A tool that must be called, as a client names it.
#[derive(Debug, Deserialize)]
pub(super) struct ToolChoiceBody {
    #[serde(rename = "type")]
    kind: Option<String>,
    #[serde(default)]
    name: String,
}

impl ToolChoice {
    /// Converts a client's choice. A forced call is a hint: the model decides.
    pub(super) fn of(choice: TextOr<ToolChoiceBody>, hints: &mut Hints) -> Result<Self, ApiError> {
        const FIELD: &str = "session.tool_choice";
        const EXPECTED: &str = "auto or none: the model decides whether it calls a function";
        match choice {
            TextOr::Text(word) if word == "auto" => Ok(Self::Auto),
            TextOr::Text(word) if word == "none" => Ok(Self::None),
            TextOr::Text(word) => {
                hints.ignore(FIELD, &excerpt(&word), EXPECTED)?;
                Ok(Self::Auto)
            }
            TextOr::Other(named) => {
                hints.ignore(FIELD, &excerpt(&named.name), EXPECTED)?;
                let is_function = named.kind.is_none_or(|kind| kind == "function");
                Ok(if is_function && !named.name.is_empty() {
                    Self::Named(named.name)
                } else {
                    Self::Auto
                })
            }
        }
    }

    /// Returns true if a function is offered.
    pub(super) fn offers(&self, tool: &Tool) -> bool {
        match self {
            Self::Auto => true,
            Self::None => false,
            Self::Named(name) => tool.name == *name,
        }
    }

    pub(super) fn json(&self) -> Value {
        match self {
            Self::Auto => json!("auto"),
            Self::None => json!("none"),
            Self::Named(name) => json!({"type": "function", "name": name}),
        }
    }
}
