// A real OpenID provider on loopback: each client of it is a person with groups, who gets a JWT for the audience "mctunnel".
// Usage: node provider.js PORT; prints a line once it serves.
import Provider, { errors } from "oidc-provider";

const port = Number(process.argv[2]);
const groups = { alice: ["dev"], bob: ["ops"] };
const resource = "urn:mctunnel";

const provider = new Provider(`http://127.0.0.1:${port}`, {
  clients: Object.keys(groups).map((name) => ({
    client_id: name,
    client_secret: `${name}-secret`,
    grant_types: ["client_credentials"],
    redirect_uris: [],
    response_types: [],
  })),
  features: {
    devInteractions: { enabled: false },
    clientCredentials: { enabled: true },
    resourceIndicators: {
      enabled: true,
      defaultResource: () => resource,
      getResourceServerInfo: (_, asked) => {
        if (asked !== resource) throw new errors.InvalidTarget();
        return { audience: "mctunnel", scope: "", accessTokenFormat: "jwt", accessTokenTTL: 3600 };
      },
    },
  },
  extraTokenClaims: (_, token) => ({ groups: groups[token.clientId] ?? [] }),
});

provider.listen(port, "127.0.0.1", () => console.log(`serving on ${port}`));
