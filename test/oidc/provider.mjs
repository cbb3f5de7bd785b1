// An OpenID provider on loopback, with five people of two tenants. It is oidc-provider as it is published,
// with its own login and consent pages: any password will do.

import { generateKeyPairSync } from 'node:crypto';
import http from 'node:http';

import Provider from 'oidc-provider';

/** people are those who can sign in: their tenant and their groups. */
export const people = {
  ana: { org: 'acme', groups: ['staff'] },
  ben: { org: 'acme', groups: ['staff', 'approvers'] },
  cleo: { org: 'acme', groups: ['staff', 'admins'] },
  dora: { org: 'globex', groups: ['staff'] },
  emil: { org: 'globex', groups: ['staff', 'approvers'] },
  stray: { groups: ['staff'] }, // of no tenant: nobody lets it in
};

export const client = { id: 'aqueduct', secret: 'a-secret-of-the-tests-0123456789' };
export const script = { id: 'script', redirect: 'http://127.0.0.1:9/callback' }; // gets bearer tokens for the API
export const audience = 'urn:aqueduct:api';

/** OpenIDProvider listens at once; serve says for which application. */
export class OpenIDProvider {
  static async start() {
    const provider = new OpenIDProvider();
    provider.server = http.createServer((req, res) => {
      if (req.url.startsWith('/jwks')) provider.keyRequests += 1;
      provider.handle(req, res);
    });
    await new Promise((resolve) => provider.server.listen(0, '127.0.0.1', resolve));
    provider.issuer = `http://127.0.0.1:${provider.server.address().port}`;
    provider.handle = (_, res) => res.writeHead(503).end();
    provider.keyRequests = 0;
    return provider;
  }

  /** serve answers for an application at a URL. */
  serve(app) {
    const oidc = new Provider(this.issuer, {
      clients: [{
        client_id: client.id, client_secret: client.secret, redirect_uris: [`${app}/api/session/oidc/callback`],
        post_logout_redirect_uris: [`${app}/`],
      }, {
        client_id: script.id, token_endpoint_auth_method: 'none', redirect_uris: [script.redirect], application_type: 'native',
      }],
      jwks: { keys: [signingKey('first')] },
      cookies: { keys: ['of the tests alone'] },
      pkce: { required: () => true },
      claims: { openid: ['sub'], profile: ['name', 'org', 'groups'] },
      findAccount: (_, sub) => people[sub] && { accountId: sub, claims: () => ({ sub, name: sub, ...people[sub] }) },
      extraTokenClaims: (_, token) => people[token.accountId],
      features: {
        devInteractions: { enabled: true },
        resourceIndicators: {
          enabled: true,
          getResourceServerInfo: () => ({ scope: 'openid profile', audience, accessTokenFormat: 'jwt', jwt: { sign: { alg: 'RS256' } } }),
        },
      },
      ttl: { AccessToken: 600, IdToken: 600, AuthorizationCode: 60, Grant: 600, Interaction: 600, Session: 600 },
    });
    this.handle = oidc.callback();
  }

  close() {
    this.server.closeAllConnections();
    this.server.close();
  }
}

function signingKey(kid) {
  const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
  return { ...privateKey.export({ format: 'jwk' }), kid, alg: 'RS256', use: 'sig' };
}
