// /openapi.json for people: routes, what each takes and answers, and a line for curl.

import { Service } from "./api.js";
import { curl } from "./curl.js";
import { askForKey } from "./dialogs.js";
import { byId, el } from "./dom.js";

const METHODS = ["get", "post", "put", "patch", "delete"];

/** What a `$ref` stands for. */
function resolved(api, schema) {
  let found = schema ?? {};
  for (let hops = 0; found.$ref && hops < 8; hops++) {
    found = found.$ref.split("/").slice(1).reduce((node, key) => node?.[key.replaceAll("~1", "/").replaceAll("~0", "~")], api) ?? {};
  }
  return found;
}

const refName = (schema) => schema?.$ref?.split("/").at(-1);

/** A schema's kind in words: "string", "list of Word", "number or null". */
function kind(schema = {}) {
  if (refName(schema)) return el("a", { href: `#schema-${refName(schema)}` }, refName(schema));
  const several = schema.anyOf ?? schema.oneOf ?? schema.allOf;
  if (several) return joined(several.map(kind));
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (schema.enum) return joined(schema.enum.map((value) => JSON.stringify(value)));
  if (schema.type === "array") return el("span", {}, "list of ", kind(schema.items));
  if (schema.type === "object" && typeof schema.additionalProperties === "object") return el("span", {}, "object of ", kind(schema.additionalProperties));
  if (schema.format === "binary" || schema.contentMediaType === "application/octet-stream") return "file";
  return schema.format ? `${schema.type} (${schema.format})` : [schema.type ?? "anything"].flat().join(" or ");
}

const joined = (kinds) => el("span", {}, ...kinds.flatMap((each, i) => (i ? [" or ", each] : [each])));

function limits(schema) {
  const said = [];
  if (schema.default !== undefined && schema.default !== null) said.push(`default ${JSON.stringify(schema.default)}`);
  if (schema.minimum !== undefined) said.push(`at least ${schema.minimum}`);
  if (schema.maximum !== undefined) said.push(`at most ${schema.maximum}`);
  if (schema.maxLength !== undefined) said.push(`at most ${schema.maxLength} characters`);
  if (schema.pattern !== undefined) said.push(`matches ${schema.pattern}`);
  return said.join("; ");
}

/** rows: [name, schema, required, description, where]. */
function fields(rows) {
  return el(
    "table", { class: "fields" },
    el("tbody", {}, ...rows.map(([name, schema, required, description, where]) =>
      el(
        "tr", {},
        el("th", { scope: "row" }, name, required ? el("span", { class: "need" }, "required") : null),
        el("td", { class: "type" }, kind(schema), where ? `, in the ${where}` : ""),
        el("td", {}, el("p", {}, description ?? schema?.description ?? ""), el("p", { class: "quiet small" }, limits(schema ?? {}))),
      ))),
  );
}

const properties = (schema) =>
  Object.entries(schema.properties ?? {}).map(([name, each]) => [name, each, schema.required?.includes(name) ?? false]);

function contents(api, content = {}) {
  return Object.entries(content).flatMap(([type, { schema }]) => {
    const whole = resolved(api, schema);
    const rows = properties(whole);
    const named = refName(schema) && !type.startsWith("multipart") && !type.startsWith("application/x-www");
    return [
      el("p", {}, el("code", {}, type), schema && (named || !rows.length) ? el("span", {}, ": ", kind(schema)) : ""),
      ...(rows.length && !named ? [fields(rows)] : []),
    ];
  });
}

function route(api, path, method, operation, shared, id) {
  const parameters = [...shared, ...(operation.parameters ?? [])].map((each) => resolved(api, each));
  const card = el(
    "section", { class: "route card", id },
    el("h3", {}, el("span", { class: "method" }, method.toUpperCase()), path),
    el("p", {}, operation.description ?? operation.summary ?? ""),
  );
  if (parameters.length) {
    card.append(el("h4", {}, "Parameters"), fields(parameters.map((each) => [each.name, each.schema, each.required, each.description, each.in])));
  }
  const body = resolved(api, operation.requestBody);
  if (body.content) card.append(el("h4", {}, "Body"), ...contents(api, body.content));
  card.append(el("h4", {}, "With curl"), el("pre", { tabindex: "0" }, curl(location.origin, path, method, parameters, body.content, (schema) => resolved(api, schema))));
  card.append(el("h4", {}, "Answers"));
  for (const [status, answer] of Object.entries(operation.responses ?? {})) {
    const said = resolved(api, answer);
    card.append(el("p", {}, el("strong", {}, status), ` ${said.description ?? ""}`), ...contents(api, said.content));
  }
  return card;
}

function schemas(api) {
  const all = Object.entries(api.components?.schemas ?? {}).filter(([name]) => !name.startsWith("Body_"));
  if (!all.length) return [];
  return [
    el("h2", {}, "Schemas"),
    ...all.map(([name, schema]) => {
      const rows = properties(schema);
      return el(
        "section", { class: "route card", id: `schema-${name}` },
        el("h3", {}, name),
        schema.description ? el("p", {}, schema.description) : null,
        rows.length ? fields(rows) : el("p", {}, kind({ ...schema, $ref: undefined })),
      );
    }),
  ];
}

function show(api) {
  const routes = Object.entries(api.paths ?? {}).flatMap(([path, item]) =>
    METHODS.filter((method) => item[method]).map((method) => ({ path, method, operation: item[method], shared: item.parameters ?? [] })));
  const links = routes.map(({ path, method }, i) => el("li", {}, el("a", { href: `#route-${i}` }, el("span", { class: "method" }, method.toUpperCase()), path)));
  byId("contents").replaceChildren(el("ul", {}, ...links));
  const { title = "The service", version = "", description = "" } = api.info ?? {};
  byId("routes").replaceChildren(
    el("h2", {}, `${title} ${version}`.trim()),
    el("p", { class: "quiet" }, description),
    ...routes.map(({ path, method, operation, shared }, i) => route(api, path, method, operation, shared, `route-${i}`)),
    ...schemas(api),
  );
  if (location.hash) document.getElementById(location.hash.slice(1))?.scrollIntoView();
}

try {
  show(await new Service(askForKey).openapi());
} catch (error) {
  byId("status").textContent = error.message;
  byId("status").dataset.kind = "bad";
}
document.body.dataset.ready = "true";
