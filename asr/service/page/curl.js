// A route as a line for curl, with values to put in place.

const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;

function example(schema, name) {
  if (schema.example !== undefined) return String(schema.example);
  if (schema.default !== undefined && schema.default !== null) return String(schema.default);
  if (schema.enum) return String(schema.enum[0]);
  return name.toUpperCase();
}

const isFile = (schema) =>
  schema.format === "binary" || schema.contentMediaType === "application/octet-stream" ||
  [schema.anyOf ?? [], schema.items ?? []].flat().some(isFile);

/** parameters: of OpenAPI. content: of the request's body, by type. resolve(schema): what a reference stands for. */
export function curl(origin, path, method, parameters, content, resolve) {
  const filled = path.replace(/\{([^}]+)\}/g, (_, name) => name.toUpperCase());
  const needed = parameters.filter((each) => each.in === "query" && each.required);
  const query = needed.map((each) => `${each.name}=${encodeURIComponent(example(resolve(each.schema), each.name))}`).join("&");
  const parts = ["curl"];
  if (method !== "get" && !(method === "post" && content)) parts.push(`-X ${method.toUpperCase()}`);
  parts.push(quoted(`${origin}${filled}${query ? `?${query}` : ""}`));
  const [type, body] = Object.entries(content ?? {})[0] ?? [];
  const schema = resolve(body?.schema);
  if (type?.startsWith("multipart")) {
    for (const [name, each] of Object.entries(schema.properties ?? {})) {
      const property = resolve(each);
      if (isFile(property)) parts.push(`-F ${quoted(`${name}=@lights.wav`)}`);
      else if (schema.required?.includes(name)) parts.push(`-F ${quoted(`${name}=${example(property, name)}`)}`);
    }
  } else if (type === "application/json") {
    const values = (schema.required ?? []).map((name) => [name, example(resolve(schema.properties?.[name]), name)]);
    parts.push("-H 'Content-Type: application/json'", `-d ${quoted(JSON.stringify(Object.fromEntries(values)))}`);
  } else if (type?.startsWith("text/")) {
    parts.push(`-H ${quoted(`Content-Type: ${type}`)}`, "--data-binary @lights.yaml");
  } else if (type) {
    parts.push(`-H ${quoted(`Content-Type: ${type}`)}`, "--data-binary @lights.wav");
  }
  return parts.join(parts.length > 2 ? " \\\n  " : " ");
}
