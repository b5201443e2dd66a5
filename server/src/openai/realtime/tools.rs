//! Functions that answers may ask for.

use omni_family::{Part, Role};
use serde::Deserialize;
use serde_json::{Value, json};

use super::items::checked;
use crate::error::excerpt;
use crate::openai::error::ApiError;
use crate::openai::json::JsonText;
use crate::openai::lean::TextOr;
use crate::service::{ChatModel, PartRequest};

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
    /// As clients are told.
    told: Value,
    /// As a part of the system's message.
    part: Part,
}

impl ToolBody {
    /// Checks functions. A model that asks for none is offered none, unless the server is strict.
    pub(super) fn offered(tools: Vec<Self>, model: &ChatModel) -> Result<Vec<Tool>, ApiError> {
        let refuse = |problem: String| Err(ApiError::invalid(Some("session.tools"), problem));
        let other = |tool: &&Self| tool.kind.as_deref().is_some_and(|kind| kind != "function");
        if let Some(other) = tools.iter().find(other) {
            let kind = excerpt(other.kind.as_deref().unwrap_or_default());
            return refuse(format!(
                "session.tools has one of type {kind:?}, expected function"
            ));
        }
        match (model.chat.tools, tools.is_empty(), model.speech.terms.strict) {
            (_, true, _) => return Ok(Vec::new()),
            (false, _, true) => {
                return refuse("session.tools: this model calls no functions, expected none".to_owned());
            }
            (false, ..) => return Ok(Vec::new()),
            (true, ..) => {}
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
    /// As clients are told of it.
    pub(super) fn json(&self) -> &Value {
        &self.told
    }

    /// As the model reads it.
    pub(super) fn part(&self) -> &Part {
        &self.part
    }

    /// Characters of it that the model reads.
    pub(super) fn characters(&self) -> usize {
        match &self.part {
            Part::Tool(tool) => tool.characters(),
            Part::Text(_) | Part::Audio(_) => 0,
        }
    }
}

/// Whether the model may ask for functions.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(from = "NamedFunction")]
pub(super) enum ToolChoice {
    Auto,
    None,
    /// This one alone is offered.
    Named(String),
}

#[derive(Deserialize)]
struct NamedFunction {
    #[serde(default)]
    name: String,
}

impl From<NamedFunction> for ToolChoice {
    fn from(function: NamedFunction) -> Self {
        Self::Named(function.name)
    }
}

impl ToolChoice {
    /// As a client asks for it. That a function must be called is a hint: the model decides.
    pub(super) fn of(choice: TextOr<Self>, strict: bool) -> Result<Self, ApiError> {
        let refuse = |got: &str| {
            let problem = format!(
                "session.tool_choice is {got:?}, expected auto or none: the model decides whether it calls a function"
            );
            Err(ApiError::invalid(Some("session.tool_choice"), problem))
        };
        match choice {
            TextOr::Text(word) => match word.as_str() {
                "auto" => Ok(Self::Auto),
                "none" => Ok(Self::None),
                "required" if !strict => Ok(Self::Auto),
                other => refuse(&excerpt(other)),
            },
            TextOr::Other(Self::Named(name)) if strict => refuse(&excerpt(&name)),
            TextOr::Other(choice) => Ok(choice),
        }
    }

    /// Whether a function is offered.
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
